"""What people change in lists of phases (one result name a line), taken as orders.

A line that is added runs its cell again if it has failed, a line that is struck cancels its cell,
and lines that are moved up run first. What can mean several things is refused with a reason.
"""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from benchfleet.domain.attempt import CellRecord

REFUSED = "# refused: "
_MARKERS = ("<<<<<<<", "=======", ">>>>>>>")
Lists = Mapping[str, Sequence[str]]  # the lines of each list, by path
RecordsByName = Mapping[str, CellRecord]  # the cells by result name


@dataclass(kw_only=True)
class Orders:
    """What the edits of all lists of a branch ask for."""

    retry: list[CellRecord] = field(default_factory=list)
    cancel: list[CellRecord] = field(default_factory=list)
    first: dict[str, list[CellRecord]] = field(default_factory=dict)  # by list, in their order
    refused: list[tuple[str, str, str]] = field(default_factory=list)  # list, line, reason
    back: dict[str, list[str]] = field(default_factory=dict)  # lines that return, by list

    def refuse(self, path: str, line: str, why: str, *, home: str = "") -> None:
        """Refuse an edit; a line with a `home` returns to that list."""
        self.refused.append((path, line, why))
        if home:
            self.back.setdefault(home, []).append(line)


def lines_of(content: bytes, *, errors: str = "strict") -> list[str]:
    """The lines of a list in UTF-8, or in UTF-16 with a byte order mark.

    Raises UnicodeDecodeError for anything else, unless `errors` says otherwise."""
    encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    return [line.strip() for line in content.decode(encoding, errors).splitlines()]


def with_endings(lines: Sequence[str], records_by_name: RecordsByName) -> list[str]:
    """The lines; those that name a cell but for a missing ``.json`` get it."""
    return [
        full
        if line not in records_by_name and (full := f"{line}.json") in records_by_name
        else line
        for line in lines
    ]


def has_conflict(lines: Sequence[str]) -> bool:
    """Whether git left conflict markers in a list."""
    return any(line.startswith(_MARKERS) for line in lines)


def why_waiting(content: bytes) -> str:
    """What keeps a list from being read, with what to do; ``""`` for nothing."""
    try:
        conflict = has_conflict(lines_of(content))
    except UnicodeDecodeError:
        return "it is not UTF-8; save it as UTF-8 and push it"
    return "it has conflict markers; resolve them and push it" if conflict else ""


def orders_of(
    before: Lists, after: Lists, records_by_name: RecordsByName, *, waiting: Collection[str] = ()
) -> Orders:
    """What was asked for between two states of the lists. The edits of lists that are `waiting`
    are no orders yet, and no line in their text is struck elsewhere."""
    orders = Orders()
    homes = {line: path for path, lines in before.items() for line in entries(lines)}
    in_waiting = {line: path for path in waiting for line in entries(after[path])}
    readable = {path: lines for path, lines in after.items() if path not in waiting}
    now = {line for lines in readable.values() for line in entries(lines)}
    for path, lines in readable.items():
        ours = any(line in records_by_name for line in (*lines, *before.get(path, ())))
        for line in dict.fromkeys(entries(lines)):
            home = homes.get(line, path)
            if home != path and home not in waiting:
                why = f"it was moved from {home}; the campaign file says which phase it is in"
                orders.refuse(path, line, why, home=home)
            elif line not in homes and ours:
                _add(orders, path, line, records_by_name.get(line))
    for path, lines in before.items():
        if path in waiting:
            continue
        struck = [line for line in entries(lines) if line in records_by_name and line not in now]
        open_ = [line for line in struck if records_by_name[line].state == "pending"]
        remaining = set(entries(lines)).intersection(entries(after.get(path, ())))
        if len(open_) > 1 and not remaining:
            why = "no earlier line is left; strike some of them, or use `benchfleet cancel`"
            for line in open_:
                orders.refuse(path, line, why, home=path)
            continue
        for line in struck:
            _strike(orders, path, line, records_by_name[line], in_waiting.get(line, ""))
    for path in before.keys() & readable.keys():
        if moved := _raised(before[path], after[path], records_by_name):
            orders.first[path] = moved
    return orders


def entries(lines: Sequence[str]) -> list[str]:
    """The lines that are no comments."""
    return [line for line in lines if line and not line.startswith("#")]


def _add(orders: Orders, path: str, line: str, record: CellRecord | None) -> None:
    if record is None:
        orders.refuse(path, line, "it is the name of no cell of the campaign")
    elif record.state == "success":
        orders.refuse(
            path, line, "it is done; `benchfleet plan --explain` says what would change that"
        )
    elif record.state not in ("pending", "running"):
        orders.retry.append(record)


def _strike(orders: Orders, path: str, line: str, record: CellRecord, now_in: str) -> None:
    """`now_in` is the list that waits and has the line now."""
    if now_in and record.state != "success":
        orders.refuse(path, line, f"it was moved to {now_in}, which waits", home=path)
    elif record.state == "pending":
        orders.cancel.append(record)
    elif record.state == "running":
        orders.refuse(path, line, "it runs now; `benchfleet cancel` ends it", home=path)


def _raised(
    before: Sequence[str], after: Sequence[str], records_by_name: RecordsByName
) -> list[CellRecord]:
    """The first cells of a list whose order changed: behind them all is in the order of before."""
    ranks = {line: rank for rank, line in enumerate(entries(before))}
    lines = [
        line
        for line in dict.fromkeys(entries(after))
        if line in ranks and line in records_by_name and records_by_name[line].state == "pending"
    ]
    start = len(lines)
    while start > 0 and (start == len(lines) or ranks[lines[start - 1]] < ranks[lines[start]]):
        start -= 1
    return [records_by_name[line] for line in lines[:start]]


def rewritten(
    path: str, lines: Sequence[str], orders: Orders, records_by_name: RecordsByName
) -> list[str]:
    """The list without what is done, and with what was refused as comments."""
    refused = {line: why for list_, line, why in orders.refused if list_ == path}
    back = orders.back.get(path, [])
    remaining: list[str] = []
    for line in lines:
        record = records_by_name.get(line)
        if record is not None and (record.state == "success" or line in remaining):
            continue
        if line not in refused or line in back:
            remaining.append(line)
    remaining += [line for line in back if line not in remaining]
    return [*remaining, *(f"{REFUSED}{line}: {why}" for line, why in refused.items())]
