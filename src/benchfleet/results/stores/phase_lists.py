"""The lists ``phase/<phase>.txt`` on branches of a shared repository.

A list is a view of the ledger: done lines leave it. People edit it by hand, so each campaign has a
ref beside each branch that points to the commit whose lists were read last. What differs since
is what people changed. A second campaign would take lines that the first one removes for edits, so
the lists of a branch belong to one campaign.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.humanize import counted
from benchfleet.domain.names import entry_name, path_part
from benchfleet.errors import BenchfleetError
from benchfleet.git.objects import Objects
from benchfleet.git.remote import RefUpdate
from benchfleet.git.shared_files import SharedFiles
from benchfleet.ledger.base import Ledger
from benchfleet.results.stores.list_edits import (
    Orders,
    has_conflict,
    lines_of,
    orders_of,
    rewritten,
    with_endings,
)

BRANCHES = ("main", "benchfleet/phases")  # the second is where `phase generate` writes by default
LISTS_ORDERED = "lists_ordered"  # the kind of the event that lines of a list were moved
_SEEN = "refs/benchfleet-lists"
ALL_SEEN = f"{_SEEN}/*"  # of all campaigns
_LIST = re.compile(r"(?:[^/]+/)?phase/[^/]+\.txt")
_AUTHOR = "benchfleet <lists@benchfleet.invalid>"
_MAX_PUSHES = 5
_PRIORITIES = "priorities"


def seen_ref(campaign: str, branch: str) -> str:
    """The ref that points to the commit of a branch whose lists were read last."""
    return f"{_SEEN}/{path_part(campaign)}/{branch}"


def owner_of_lists(refs: Iterable[str], campaign: str, branch: str) -> str:
    """The other campaign that the lists of the branch belong to, by the remote's refs; ``""`` if
    they belong to this one, or to none yet."""
    if seen_ref(campaign, branch) in refs:
        return ""
    names = (ref.removeprefix(f"{_SEEN}/").partition("/") for ref in refs if ref.startswith(_SEEN))
    return next((name for name, _, of in names if of == branch), "")


@dataclass
class ListUpdate:
    """What came of the lists of a branch."""

    struck: int = 0  # lines of cells that are done
    orders: Orders = field(default_factory=Orders)

    @property
    def messages(self) -> list[str]:
        """What a run prints about the edits."""
        lines = [f"{path}: {line} is refused: {why}" for path, line, why in self.orders.refused]
        lines += [f"{one.path} runs again: it was added to a list" for one in self.orders.retry]
        lines += [
            f"{one.path} is cancelled: it was struck from a list" for one in self.orders.cancel
        ]
        lines += [
            f"{path}: {counted(len(records), 'cell')} moved up: they run first"
            for path, records in self.orders.first.items()
        ]
        return lines


def update_lists(
    files: SharedFiles, campaign: str, ledger: Ledger, *, branches: Sequence[str] = BRANCHES
) -> list[ListUpdate]:
    """Follow the edits of all lists, and remove the lines that are done. One entry for each branch
    with lists of this campaign. Raises GitError, LedgerError, and BenchfleetError for a list with
    conflicts or in another encoding."""
    for _ in range(_MAX_PUSHES):
        refs = files.remote.refs(*(f"refs/heads/{branch}" for branch in branches), ALL_SEEN)
        done, updates = list[ListUpdate](), list[RefUpdate]()
        for branch in branches:
            if owner_of_lists(refs, campaign, branch):
                continue
            tip, seen = refs.get(f"refs/heads/{branch}", ""), seen_ref(campaign, branch)
            one = _update_branch(files, ledger, tip, refs.get(seen, "")) if tip else None
            if one is not None:
                outcome, commit, last_seen = one
                done.append(outcome)
                if commit != tip:
                    updates.append(RefUpdate(ref=f"refs/heads/{branch}", old=tip, new=commit))
                if last_seen != refs.get(seen, ""):
                    updates.append(RefUpdate(ref=seen, old=refs.get(seen, ""), new=last_seen))
        if updates:
            files.wait_to_push()
        if not updates or files.remote.push(updates):
            return done
    raise BenchfleetError(f"the lists of {campaign} changed during each of {_MAX_PUSHES} pushes")


def _update_branch(
    files: SharedFiles, ledger: Ledger, tip: str, seen: str
) -> tuple[ListUpdate, str, str] | None:
    """Do what the edits of a branch ask for; the commits that the branch and the ref beside it
    should have. None without lists."""
    objects = files.objects
    new = [oid for oid in dict.fromkeys((tip, seen)) if oid and not objects.has(oid)]
    files.remote.fetch(new, depth=int(files.shallow), without_files=files.shallow)
    blobs = list_blobs(objects, objects.commit_of(tip).tree)
    earlier = list_blobs(objects, objects.commit_of(seen).tree) if seen else blobs
    if not blobs and not earlier:
        return None
    missing = [oid for oid in (*blobs.values(), *earlier.values()) if not objects.has(oid)]
    files.remote.fetch(missing)
    after = _lines(objects, blobs)
    before = {
        path: lines_of(objects.read(oid)[1], errors="replace") for path, oid in earlier.items()
    }
    for path, lines in after.items():
        if has_conflict(lines):
            raise BenchfleetError(f"{path} has conflict markers; resolve them and push it again")
    records_by_name = {f"{entry_name(record.id)}.json": record for record in ledger.cells()}
    after = {path: with_endings(lines, records_by_name) for path, lines in after.items()}
    before = {path: with_endings(lines, records_by_name) for path, lines in before.items()}
    update = ListUpdate(orders=orders_of(before, after, records_by_name))
    _follow(ledger, update.orders, after, records_by_name)
    tree = objects.commit_of(tip).tree
    for path in dict.fromkeys((*after, *update.orders.back)):
        lines = after.get(path, [])
        listed = rewritten(path, lines, update.orders, records_by_name)
        update.struck += sum(
            line in records_by_name and records_by_name[line].state == "success" for line in lines
        )
        if listed != lines:
            content = "".join(f"{line}\n" for line in listed)
            tree = objects.with_file(tree, path, objects.blob(content.encode()))
    if tree == objects.commit_of(tip).tree:
        return update, tip, seen if seen and blobs == earlier else tip
    refused = len(update.orders.refused)
    parts = [f"strike {counted(update.struck, 'done line')}"] if update.struck else []
    parts += [f"refuse {counted(refused, 'edit')}"] if refused else []
    text = f"{', '.join(parts) or 'put back lines'}\n"
    commit = objects.commit(tree, (tip,), text, who=_AUTHOR, at=time.time())
    return update, commit, commit


def _follow(
    ledger: Ledger,
    orders: Orders,
    after: Mapping[str, Sequence[str]],
    records_by_name: Mapping[str, CellRecord],
) -> None:
    for kind, records in (("retry_asked", orders.retry), ("cancel_asked", orders.cancel)):
        for record in records:
            ledger.record(Event(kind=kind, fingerprint=record.fingerprint, data={"by": "a list"}))
    priorities: dict[str, int] = {}
    for path, records in orders.first.items():
        listed = {
            records_by_name[line].fingerprint for line in after[path] if line in records_by_name
        }
        others = listed - {record.fingerprint for record in records}
        cells = ledger.cells(fingerprints=others, with_cell=True)
        top = max((one.cell.priority for one in cells if one.cell), default=0)
        first = len(records) + top
        priorities |= {one.fingerprint: first - rank for rank, one in enumerate(records)}
    if priorities:
        ledger.record(Event(kind=LISTS_ORDERED, data={_PRIORITIES: priorities}))
        chosen = ledger.cells(fingerprints=set(priorities), with_cell=True)
        ledger.enroll(with_order(ledger, [one.cell for one in chosen if one.cell]))


def with_order(ledger: Ledger, cells: Sequence[Cell]) -> list[Cell]:
    """The cells with the priorities that people gave them in lists, instead of the campaign's."""
    priorities: dict[str, int] = {}
    for event in ledger.events(kinds={LISTS_ORDERED}):
        priorities |= event.data[_PRIORITIES]
    return [
        replace(cell, priority=priorities.get(cell.fingerprint, cell.priority)) for cell in cells
    ]


def _lines(objects: Objects, blobs: Mapping[str, str]) -> dict[str, list[str]]:
    lines_by_path = {}
    for path, oid in blobs.items():
        try:
            lines_by_path[path] = lines_of(objects.read(oid)[1])
        except UnicodeDecodeError:
            raise BenchfleetError(f"{path} is not UTF-8; save it as UTF-8 and push it") from None
    return lines_by_path


def list_blobs(objects: Objects, tree: str) -> dict[str, str]:
    """The lists of a tree by path: in ``phase/``, or one folder below the top."""
    lists = {}
    tops = [("", tree)]
    tops += [(f"{name}/", oid) for name, (oid, folder) in objects.entries(tree) if folder]
    for above, oid in tops:
        phase = objects.lookup(oid, "phase")
        if phase is not None and phase[1]:
            for name, (blob, folder) in objects.entries(phase[0]):
                if not folder and _LIST.fullmatch(path := f"{above}phase/{name}"):
                    lists[path] = blob
    return lists
