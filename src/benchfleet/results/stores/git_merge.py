"""Merges the results of all machines into one branch, and updates the phase lists there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchfleet.domain.humanize import counted
from benchfleet.domain.names import entry_name
from benchfleet.errors import GitAway, GitDenied, GitError, ResultsError, StoreUnreachable
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.remote import RefUpdate, Remote
from benchfleet.results.stores.git import (
    extract,
    fetch_branches,
    result_path,
    seal_digest,
    summary_path,
)
from benchfleet.results.stores.list_edits import why_waiting
from benchfleet.results.stores.phase_lists import ALL_SEEN, list_blobs, owner_of_lists

MAIN = "refs/heads/main"
LISTS = "refs/heads/benchfleet/phases"  # where `phase generate` writes lists by default
_MACHINES = "refs/heads/machine/"
_MAX_PUSHES = 5
_AUTHOR = "benchfleet <merge@benchfleet.invalid>"


@dataclass(frozen=True, kw_only=True)
class Done:
    """A result that the ledger has as done."""

    id: str
    path: str
    digest: str  # of its cell.json


@dataclass(kw_only=True)
class Merged:
    """The outcome of a merge."""

    entries: list[str] = field(default_factory=list)  # new results
    struck: int = 0  # lines removed from the lists
    waiting: dict[str, str] = field(default_factory=dict)  # list and branch → why it cannot be read
    refused: dict[str, str] = field(default_factory=dict)  # path → reason
    commit: str = ""  # "" if nothing changed


def merge_branches(
    remote: Remote, objects: Objects, campaign: str, done: Sequence[Done], *, at: float
) -> Merged:
    """Merge these results from the machines' branches into ``main``, which is created if missing.
    A result that differs from its seal is refused. Raises StoreUnreachable."""
    for _ in range(_MAX_PUSHES):
        try:
            merged, swaps = _merged(remote, objects, campaign, done, at)
            if not swaps or remote.push(swaps):
                return merged
        except (GitAway, GitDenied) as error:
            raise StoreUnreachable(str(error)) from error
    raise StoreUnreachable(f"{MAIN} changed during each of {_MAX_PUSHES} pushes; try again")


def _merged(
    remote: Remote, objects: Objects, campaign: str, done: Sequence[Done], at: float
) -> tuple[Merged, list[RefUpdate]]:
    refs = remote.refs(MAIN, LISTS, f"{_MACHINES}*")
    fetch_branches(remote, objects, refs)
    old = refs.get(MAIN, "")
    tips = {ref: oid for ref, oid in refs.items() if ref.startswith(_MACHINES)}
    tree = before = objects.commit_of(old).tree if old else EMPTY_TREE
    merged, merged_refs = Merged(), set[str]()
    for result in done:
        tree_path = result_path(campaign, result.path)
        in_main = seal_digest(objects, tree, tree_path)
        if in_main == result.digest:
            continue
        for ref, tip in tips.items():
            branch = objects.commit_of(tip).tree
            digest = seal_digest(objects, branch, tree_path)
            if not digest or (in_main and digest != result.digest):
                continue  # an older result stays until a branch has the one of the ledger
            try:
                tree = _with(objects, tree, branch, campaign, result)
            except (ResultsError, GitError) as error:
                merged.refused[result.path] = str(error)
                continue
            merged.refused.pop(result.path, None)
            merged.entries.append(entry_name(result.id))
            merged_refs.add(ref)
            break
        else:
            if in_main:
                why = "main has an older result, and no branch has the one of the ledger"
                merged.refused.setdefault(result.path, why)
    stems, swaps = {entry_name(one.id) for one in done}, list[RefUpdate]()
    entries = stems | {f"{stem}.json" for stem in stems}  # people leave out the ending
    seen = remote.refs(ALL_SEEN)
    if not owner_of_lists(seen, campaign, _branch_of(MAIN)):
        tree = _struck(objects, tree, entries, merged, MAIN)
    if (lists := refs.get(LISTS)) and not owner_of_lists(seen, campaign, _branch_of(LISTS)):
        listed = objects.commit_of(lists).tree
        remaining = _struck(objects, listed, entries, merged, LISTS)
        if remaining != listed:
            new = objects.commit(remaining, (lists,), "strike what is done\n", who=_AUTHOR, at=at)
            swaps.append(RefUpdate(ref=LISTS, old=lists, new=new))
    if tree == before:
        return merged, swaps
    parents = (*((old,) if old else ()), *(tips[ref] for ref in sorted(merged_refs)))
    merged.commit = objects.commit(tree, parents, _message(campaign, merged), who=_AUTHOR, at=at)
    return merged, [*swaps, RefUpdate(ref=MAIN, old=old, new=merged.commit)]


def _branch_of(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def _message(campaign: str, merged: Merged) -> str:
    if len(merged.entries) == 1:
        return f"finish {merged.entries[0]}\n"
    body = "".join(f"finish {entry}\n" for entry in merged.entries)
    results = counted(len(merged.entries), "result")
    head = f"merge {results} of {campaign}" if body else "strike what is done"
    return f"{head}\n\n{body}".rstrip() + "\n"


def _with(objects: Objects, tree: str, branch: str, campaign: str, result: Done) -> str:
    """The tree with a result of a branch added, once it is checked against its seal."""
    tree_path, run = result_path(campaign, result.path), summary_path(campaign, result.path)
    with TemporaryDirectory(prefix="benchfleet-") as folder:
        extract(objects, branch, tree_path, Path(folder) / "checked", result.digest)
    for top in (tree_path.partition("/")[0], run.partition("/")[0]):
        if (entry := objects.lookup(tree, top)) is not None and not entry[1]:
            raise ResultsError(f"{top} is a file on main, where results need a folder; rename it")
    entry = objects.lookup(branch, tree_path)
    if entry is None:
        raise ResultsError(f"{tree_path} is missing")
    tree = objects.with_folder(tree, tree_path, entry[0])
    summary = objects.lookup(branch, run)
    return objects.with_file(tree, run, summary[0]) if summary and not summary[1] else tree


def _struck(objects: Objects, tree: str, entries: set[str], merged: Merged, ref: str) -> str:
    """The tree without these lines in every ``phase/<phase>.txt`` that can be read."""
    for path, blob in list_blobs(objects, tree).items():
        content = objects.read(blob)[1]
        if why := why_waiting(content):
            merged.waiting[f"{path} on {_branch_of(ref)}"] = why
            continue
        lines = content.splitlines(keepends=True)
        rest = [line for line in lines if line.strip().decode("utf-8", "replace") not in entries]
        if len(rest) < len(lines):
            merged.struck += len(lines) - len(rest)
            tree = objects.with_file(tree, path, objects.blob(b"".join(rest)))
    return tree
