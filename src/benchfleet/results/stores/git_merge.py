"""Bringing the results of all machines onto one branch of their repository, with the lists of what
is to do rewritten."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchfleet.domain.humanize import counted
from benchfleet.domain.names import entry_name
from benchfleet.errors import GitAway, GitDenied, GitError, ResultsError, StoreUnreachable
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.remote import Remote, Swap
from benchfleet.results.stores.git import bring, place_of, run_of, take_out

MAIN = "refs/heads/main"
LISTS = "refs/heads/benchfleet/phases"  # where `phase generate` puts lists, unless told otherwise
_MACHINES = "refs/heads/machine/"
_LIST = re.compile(r"(?:[^/]+/)?phase/[^/]+\.txt")
_TRIES = 5
_WHO = "benchfleet <merge@benchfleet.invalid>"


@dataclass(frozen=True, kw_only=True)
class Done:
    """A result that the ledger calls done."""

    id: str
    path: str
    digest: str  # of its cell.json


@dataclass(kw_only=True)
class Merged:
    """What came onto the branch."""

    entries: list[str] = field(default_factory=list)  # results that were not there before
    struck: int = 0  # lines of the lists that are done
    refused: dict[str, str] = field(default_factory=dict)  # path → why
    commit: str = ""  # "" where nothing was to be done


def merge_branches(
    remote: Remote, objects: Objects, campaign: str, done: Sequence[Done], *, at: float
) -> Merged:
    """Merge what the machines' branches have of these results into ``main``, made where there is
    none. What is not as it was sealed stays where it is. Raises StoreUnreachable."""
    for _ in range(_TRIES):
        try:
            told, swaps = _merged(remote, objects, campaign, done, at)
            if not swaps or remote.push(swaps):
                return told
        except (GitAway, GitDenied) as error:
            raise StoreUnreachable(str(error)) from error
    raise StoreUnreachable(f"{MAIN} changes all the time; try again")


def _merged(
    remote: Remote, objects: Objects, campaign: str, done: Sequence[Done], at: float
) -> tuple[Merged, list[Swap]]:
    refs = remote.refs(MAIN, LISTS, f"{_MACHINES}*")
    bring(remote, objects, refs)
    old = refs.get(MAIN, "")
    tips = {ref: oid for ref, oid in refs.items() if ref.startswith(_MACHINES)}
    tree = before = objects.commit_of(old).tree if old else EMPTY_TREE
    told, came = Merged(), set[str]()
    for result in done:
        place = place_of(campaign, result.path)
        if objects.at(tree, place) is not None:
            continue
        for ref, tip in tips.items():
            branch = objects.commit_of(tip).tree
            if objects.at(branch, place) is None:
                continue
            try:
                tree = _with(objects, tree, branch, place, result)
            except (ResultsError, GitError) as error:
                told.refused[result.path] = str(error)
                continue
            told.refused.pop(result.path, None)
            told.entries.append(entry_name(result.id))
            came.add(ref)
            break
    entries, swaps = {f"{entry_name(one.id)}.json" for one in done}, list[Swap]()
    tree, told.struck = _struck(objects, tree, entries)
    if lists := refs.get(LISTS):
        left, struck = _struck(objects, objects.commit_of(lists).tree, entries)
        told.struck += struck
        if struck:
            new = objects.commit(left, (lists,), "strike what is done\n", who=_WHO, at=at)
            swaps.append(Swap(ref=LISTS, old=lists, new=new))
    if tree == before:
        return told, swaps
    parents = (*((old,) if old else ()), *(tips[ref] for ref in sorted(came)))
    told.commit = objects.commit(tree, parents, _message(campaign, told), who=_WHO, at=at)
    return told, [*swaps, Swap(ref=MAIN, old=old, new=told.commit)]


def _message(campaign: str, told: Merged) -> str:
    if len(told.entries) == 1:
        return f"finish {told.entries[0]}\n"
    body = "".join(f"finish {entry}\n" for entry in told.entries)
    results = counted(len(told.entries), "result")
    head = f"merge {results} of {campaign}" if body else "strike what is done"
    return f"{head}\n\n{body}".rstrip() + "\n"


def _with(objects: Objects, tree: str, branch: str, place: str, result: Done) -> str:
    """The tree with a result of a branch added, which is as it was sealed."""
    with TemporaryDirectory(prefix="benchfleet-") as folder:
        take_out(objects, branch, place, Path(folder) / "checked", result.digest)
    found = objects.at(branch, place)
    if found is None:
        raise ResultsError(f"{place} is gone")
    tree = objects.with_folder(tree, place, found[0])
    run = run_of(result.id)
    short = objects.at(branch, run)
    return objects.with_file(tree, run, short[0]) if short and not short[1] else tree


def _struck(objects: Objects, tree: str, entries: set[str]) -> tuple[str, int]:
    """The tree with these lines taken out of every ``phase/<phase>.txt``, and how many."""
    count = 0
    for path, blob in _lists(objects, tree).items():
        lines = objects.read(blob)[1].splitlines(keepends=True)
        left = [line for line in lines if line.strip().decode("utf-8", "replace") not in entries]
        if len(left) < len(lines):
            count += len(lines) - len(left)
            tree = objects.with_file(tree, path, objects.blob(b"".join(left)))
    return tree, count


def _lists(objects: Objects, tree: str) -> Mapping[str, str]:
    """The lists of a tree by their path: in ``phase/``, or one folder below the top."""
    found = {}
    tops = [("", tree)]
    tops += [(f"{name}/", oid) for name, (oid, folder) in objects.entries(tree) if folder]
    for above, oid in tops:
        phase = objects.at(oid, "phase")
        if phase is not None and phase[1]:
            for name, (blob, folder) in objects.entries(phase[0]):
                if not folder and _LIST.fullmatch(path := f"{above}phase/{name}"):
                    found[path] = blob
    return found
