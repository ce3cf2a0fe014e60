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
    lines_of,
    orders_of,
    rewritten,
    why_waiting,
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

    branch: str
    waiting: dict[str, str]  # lists that cannot be read, each with the reason
    struck: int = 0  # lines of cells that are done
    orders: Orders = field(default_factory=Orders)

    @property
    def notices(self) -> list[str]:
        """What keeps lists from being read, each with what to do."""
        return [
            f"the list {path} on {self.branch} waits: {why}" for path, why in self.waiting.items()
        ]

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
    with lists of this campaign. A list with conflicts or in another encoding waits. Raises GitError
    and LedgerError."""
    for _ in range(_MAX_PUSHES):
        refs = files.remote.refs(*(f"refs/heads/{branch}" for branch in branches), ALL_SEEN)
        done, updates = list[ListUpdate](), list[RefUpdate]()
        for branch in branches:
            if owner_of_lists(refs, campaign, branch):
                continue
            tip, seen = refs.get(f"refs/heads/{branch}", ""), seen_ref(campaign, branch)
            one = _update_branch(files, ledger, branch, tip, refs.get(seen, "")) if tip else None
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
    files: SharedFiles, ledger: Ledger, branch: str, tip: str, seen: str
) -> tuple[ListUpdate, str, str] | None:
    """Do what the edits of a branch ask for; the commits that the branch and the ref beside it
    should have. None without lists."""
    objects = files.objects
    new = [oid for oid in dict.fromkeys((tip, seen)) if oid and not objects.has(oid)]
    files.remote.fetch(new, depth=int(files.shallow), without_files=files.shallow)
    tree = before_tree = objects.commit_of(tip).tree
    blobs = list_blobs(objects, tree)
    earlier = list_blobs(objects, objects.commit_of(seen).tree) if seen else blobs
    if not blobs and not earlier:
        return None
    missing = [oid for oid in (*blobs.values(), *earlier.values()) if not objects.has(oid)]
    files.remote.fetch(missing)
    records_by_name = {f"{entry_name(record.id)}.json": record for record in ledger.cells()}
    contents = {path: objects.read(oid)[1] for path, oid in blobs.items()}
    waiting = {path: why for path, content in contents.items() if (why := why_waiting(content))}
    after = {
        path: with_endings(lines_of(content, errors="replace"), records_by_name)
        for path, content in contents.items()
    }
    before = {}
    for path, oid in earlier.items():
        content = objects.read(oid)[1]
        if why_waiting(content):  # it was never read: what it says now is no edit
            before[path] = after.get(path, [])
        else:
            before[path] = with_endings(lines_of(content), records_by_name)
    orders = orders_of(before, after, records_by_name, waiting=waiting)
    update = ListUpdate(branch=branch, waiting=waiting, orders=orders)
    _follow(ledger, orders, after, records_by_name)
    for path in dict.fromkeys((*after, *orders.back)):
        if path in waiting:
            continue
        lines = after.get(path, [])
        listed = rewritten(path, lines, orders, records_by_name)
        update.struck += sum(
            line in records_by_name and records_by_name[line].state == "success" for line in lines
        )
        if listed != lines:
            content = "".join(f"{line}\n" for line in listed).encode()
            tree = objects.with_file(tree, path, objects.blob(content))
    commit = tip
    if tree != before_tree:
        commit = objects.commit(tree, (tip,), _message(update), who=_AUTHOR, at=time.time())
    as_read = {path: (earlier[path], False) for path in waiting if path in earlier}
    seen_tree = objects.with_all(tree, as_read)
    if seen and list_blobs(objects, seen_tree) == earlier:
        return update, commit, seen
    if seen_tree != tree:  # lists that wait stay there as they were read last
        text = "keep lists that wait as they were\n"
        seen = objects.commit(seen_tree, (commit,), text, who=_AUTHOR, at=time.time())
        return update, commit, seen
    return update, commit, commit


def _message(update: ListUpdate) -> str:
    refused = len(update.orders.refused)
    parts = [f"strike {counted(update.struck, 'done line')}"] if update.struck else []
    parts += [f"refuse {counted(refused, 'edit')}"] if refused else []
    return f"{', '.join(parts) or 'put back lines'}\n"


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
