"""What makes a cell another one than an earlier cell of the same readable name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import zip_longest
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.errors import CampaignError, wrong_option

ABSENT = "(absent)"
_STEP_VERSION = re.compile(r"config\.attention\[(\d+)\]\[2\]")
_MIN_PREFIX_DIGITS = 4  # digits of a fingerprint that are taken for its beginning


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One key of the identity that is not what it was."""

    key: str  # dotted, such as model.model_kwargs.dtype
    old: Any  # ABSENT where the earlier cell had no such key
    new: Any


@dataclass(frozen=True, kw_only=True)
class Named:
    """A cell with the path that its results have, or will have."""

    cell: Cell
    path: str


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """What differs between two identities, key by key; a list is compared item by item."""
    return list(_differing(old, new, ""))


def subject(key: str, cell: Cell) -> str:
    """What a key of the cell's identity is, as people call it: ``adapter mock: version``, or the
    key itself."""
    if key == "model.adapter_version":
        return f"adapter {cell.model.adapter}: version"
    if key == "workload.version":
        return f"benchmark {cell.workload.benchmark}: version"
    if step := _STEP_VERSION.fullmatch(key):
        return f"attention config {cell.config.attention[int(step[1])].name}: version"
    return f"{key}:"


def earlier(cell: Cell, records: Sequence[CellRecord]) -> list[CellRecord]:
    """The cells of the same readable name that the ledger knows beside this one, latest first."""
    return [
        record
        for record in reversed(records)
        if record.id == cell.id and record.fingerprint != cell.fingerprint and record.cell
    ]


def find(
    word: str,
    cells: Sequence[Named],
    records: Sequence[CellRecord],
    *,
    key: str = "--explain",
    otherwise: str = "list all cells: benchfleet plan CAMPAIGN --cells",
) -> Named:
    """The cell that is meant: by id, by path, or by the beginning of its fingerprint; one of the
    campaign before one that only the ledger knows. Raises CampaignError with the near ones, or
    with `otherwise`, which says where all are."""
    everything = [
        *cells,
        *(Named(cell=record.cell, path=record.path) for record in records if record.cell),
    ]
    for named in everything:
        if word.strip("/") in (named.cell.id, named.path):
            return named
    prefix = word.lower()
    if len(prefix) >= _MIN_PREFIX_DIGITS:
        matches = {
            n.cell.fingerprint: n for n in everything if n.cell.fingerprint.startswith(prefix)
        }
        if len(matches) == 1:
            return next(iter(matches.values()))
        if matches:
            raise _unknown(
                key, word, f"{len(matches)} cells begin so; write more of the fingerprint"
            )
    names = list(dict.fromkeys(named.path for named in everything))
    close = get_close_matches(word, names, n=3) or [name for name in names if word in name][:3]
    hint = f"did you mean {' or '.join(close)}?" if close else otherwise
    raise _unknown(key, word, f"no such cell; {hint}")


def _unknown(key: str, word: str, message: str) -> CampaignError:
    return wrong_option(f"{key} {word}", message)


def _differing(old: Any, new: Any, path: str) -> Iterator[Difference]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*new, *old]):
            at = f"{path}.{key}" if path else str(key)
            yield from _differing(old.get(key, ABSENT), new.get(key, ABSENT), at)
    elif isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        for index, (one, other) in enumerate(zip_longest(old, new, fillvalue=ABSENT)):
            yield from _differing(one, other, f"{path}[{index}]")
    # True and 1 are two values in a fingerprint, though Python calls them equal.
    elif repr(old) != repr(new):
        yield Difference(key=path, old=old, new=new)
