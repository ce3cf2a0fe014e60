"""Completes pushes of which a remote applied only a part.

A push changes all of its refs or none. A repository that keeps refs in files changes them one after
the other, and its machine may die in between. Then the ref of a cell points to a commit that no log
has, or to one before the end of a log. A worker that sees this for 10 s moves the refs as the push
would have. Each move is a compare-and-swap, so several workers may do it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchfleet.errors import GitError
from benchfleet.git.objects import Objects
from benchfleet.git.remote import RefUpdate, Remote
from benchfleet.ledger.git.address import Refs, ref_part
from benchfleet.ledger.git.log import facts_of, payload

RETRY_TIMEOUT_S = 10.0  # refs that are read while a push changes them differ for a moment
MAX_COMMITS_SEARCHED = 200  # commits of a log in which results are looked for
_MACHINES = "refs/heads/machine/"


class Mismatches:
    """The cells whose refs point to what no log has, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}  # by fingerprint: the object, and when

    def lasting(self, mismatched: Mapping[str, str], now: float) -> dict[str, str]:
        """Those `mismatched` now that have been so for a while, with their objects."""
        before = self._since
        self._since = {
            name: entry if (entry := before.get(name, ("", 0.0)))[0] == oid else (oid, now)
            for name, oid in mismatched.items()
        }
        return {name: oid for name, (oid, at) in self._since.items() if now - at >= RETRY_TIMEOUT_S}


def complete_claims(
    remote: Remote,
    objects: Objects,
    refs: Refs,
    mismatched: Mapping[str, tuple[str, int, str]],
    logs: Mapping[str, str],
) -> None:
    """Complete the pushes behind these cells. Given are the object that each ref points to, and the
    number and the commit of the last fact known of the cell. Raises GitError."""
    done = set()
    for fingerprint, (oid, turn, base) in mismatched.items():
        ref = f"{refs.claims}{fingerprint}"
        updates = [RefUpdate(ref=ref, old=oid, new=base)]
        if objects.read(oid)[0] == "commit" and (more := _next_of_log(objects, refs, oid, logs)):
            if oid in done:
                continue
            updates = [more, *_results(remote, objects, oid)]
        elif _turn(remote, objects, fingerprint, oid) > turn:
            continue  # it was not read yet
        done.add(oid)
        for update in updates:
            remote.push([update])


def _next_of_log(
    objects: Objects, refs: Refs, oid: str, logs: Mapping[str, str]
) -> RefUpdate | None:
    """A log moving on to a commit that follows its last one."""
    commit = objects.commit_of(oid)
    log = f"{refs.logs}{ref_part(str(payload(commit).get('installation', '')))}"
    tip = logs.get(log, "")
    return (
        RefUpdate(ref=log, old=tip, new=oid) if commit.parents == ((tip,) if tip else ()) else None
    )


def _turn(remote: Remote, objects: Objects, fingerprint: str, oid: str) -> int:
    """The number of the fact about a cell that an object stands for."""
    kind, content = objects.read(oid)
    if kind == "blob":
        oid = str(json.loads(content)["holds"][fingerprint])
        if not objects.has(oid):
            remote.fetch([oid], depth=1)
    facts = facts_of(objects.commit_of(oid))
    return max(fact.turn for fact in facts if fact.fingerprint == fingerprint)


def complete_results(remote: Remote, objects: Objects, logs: Iterable[str]) -> None:
    """Move the branches of results to what the last commits of the `logs` name. Raises GitAway,
    GitDenied."""
    tips = set(remote.refs(f"{_MACHINES}*").values())
    for oid in logs:
        for commit in objects.back(oid, MAX_COMMITS_SEARCHED):
            if results := payload(commit).get("results"):
                if not tips.intersection(results.values()):
                    for update in _results(remote, objects, commit.oid):
                        remote.push([update])
                break


def _results(remote: Remote, objects: Objects, oid: str) -> Iterator[RefUpdate]:
    """The branch of an installation moving on to the results that a commit of its log names."""
    commit = objects.commit_of(oid)
    content = payload(commit)
    results: Sequence[str] = list(content.get("results", {}).values())
    if not results:
        return
    try:
        remote.fetch(results, depth=len(results) + 1, without_files=True)
    except GitError:  # the remote gives only what its refs lead to; their owner will tell them
        return
    before = {one for result in results for one in objects.commit_of(result).parents}
    (last,) = set(results) - before
    first = next(iter(before - set(results)), "")
    installation = ref_part(str(content["installation"]))
    branches = remote.refs(f"{_MACHINES}*-{installation}")
    hosts = [fact.data["outcome"]["host"] for fact in facts_of(commit) if fact.kind == "finished"]
    named = next(iter(branches), f"{_MACHINES}{ref_part(hosts[0])}-{installation}")
    if branches.get(named, "") == first:
        yield RefUpdate(ref=named, old=first, new=last)
