"""A cell as the texts that a ledger's row keeps, and a row as the record that callers see."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from operator import is_
from typing import Any, TypeVar

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell, Config, Model, Workload, field_values
from benchfleet.errors import LedgerDamaged

T = TypeVar("T")
# What reading JSON raises that was changed by hand.
PARSE_ERRORS = (ValueError, TypeError, LookupError, AttributeError)


class CellSerializer:
    """Turns cells into the two texts that are kept of each: what it is, and its terms, which
    follow the campaign while it has not ended.

    The cells of a matrix share their parts, so the text of each part is made once.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[Callable[[Any], Any], int], tuple[object, str]] = {}
        # Neighbours nearly always share all their parts: the text up to the repeat, and the terms.
        self._last_spec: tuple[tuple[object, ...], str] = ((), "")
        self._last_terms: tuple[tuple[object, ...], str] = ((), "")

    def spec(self, cell: Cell) -> str:
        """What the cell is, as JSON."""
        parts, start = self._last_spec
        now = (cell.model, cell.config, cell.workload)
        if not _same(parts, now):
            start = (
                f'{{"model": {self._text(_model, cell.model)},'
                f' "config": {self._text(_config, cell.config)},'
                f' "workload": {self._text(_workload, cell.workload)},'
            )
            self._last_spec = now, start
        repeats = "true" if cell.repeats else "false"
        return f'{start} "repeat": {cell.repeat}, "repeats": {repeats}}}'

    def terms(self, cell: Cell) -> str:
        """What is no part of the cell's identity and does not name it, as JSON."""
        parts, text = self._last_terms
        now = (cell.need, cell.limits, cell.model, cell.workload, cell.priority, cell.phase)
        if not (_same(parts[:4], now[:4]) and parts[4:] == now[4:]):
            text = (
                f'{{"need": {self._text(field_values, cell.need)},'
                f' "limits": {self._text(field_values, cell.limits)},'
                f' "priority": {cell.priority},{self._phase(cell)}'
                f' "model": {self._text(_location, cell.model)},'
                f' "workload": {self._text(_outside, cell.workload)}}}'
            )
            self._last_terms = now, text
        return text

    @staticmethod
    def _phase(cell: Cell) -> str:
        return f' "phase": {json.dumps(cell.phase)},' if cell.phase else ""

    def _text(self, chosen: Callable[[Any], Any], part: object) -> str:
        cached = self._texts.get((chosen, id(part)))
        if cached is None:  # the part is kept alive, so that no other gets its id
            cached = self._texts[chosen, id(part)] = (part, json.dumps(chosen(part)))
        return cached[1]


def _same(parts: tuple[object, ...], others: tuple[object, ...]) -> bool:
    """Whether all of them are the very same objects, which are kept alive by that."""
    return len(parts) == len(others) and all(map(is_, parts, others))


def _model(model: Model) -> dict[str, Any]:
    fields = {**field_values(model), "model_kwargs": dict(model.model_kwargs)}
    left_out = {"source", "python", "outside"}
    if model.adapter_version is None:  # as ledgers have it of cells older than that
        left_out.add("adapter_version")
    return {name: value for name, value in fields.items() if name not in left_out}


def _location(model: Model) -> dict[str, Any]:
    outside = {"outside": dict(model.outside)} if model.outside else {}
    return {"source": model.source, "python": model.python, **outside}


def _config(config: Config) -> dict[str, Any]:
    fields = {**field_values(config), "attention": config.identity()["attention"]}
    return {name: value for name, value in fields.items() if name != "settings" or value}


def _workload(workload: Workload) -> dict[str, Any]:
    return {name: value for name, value in field_values(workload).items() if name != "outside"}


def _outside(workload: Workload) -> dict[str, Any]:
    return {"outside": dict(workload.outside)}


def parse_cell(spec: str, terms: str) -> Cell:
    """The cell that two such texts stand for; those that differ in their repeat share the rest.

    Raises LedgerDamaged where they cannot be read.
    """
    try:
        return _read(spec, terms)
    except PARSE_ERRORS as error:
        raise _damaged(f"what a cell is: {spec[:80]}") from error


def _damaged(what: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"the ledger is damaged and cannot tell {what}; see `benchfleet ledger check`"
    )


def _read(spec: str, terms: str) -> Cell:
    kind, separator, repeat = spec.rpartition(', "repeat": ')
    number, also, repeats = repeat.partition(', "repeats": ')
    if not (separator and also):
        return _cell(json.loads(spec), terms)
    own = {"repeat": int(number), "repeats": repeats == "true}"}
    return build_frozen(Cell, {**_shared(kind, terms), **own})


def build_frozen(kind: type[T], fields: Mapping[str, Any]) -> T:
    """A frozen value with all its fields, which by itself would set each of them by a call."""
    value = object.__new__(kind)
    value.__dict__.update(fields)
    return value


@lru_cache(maxsize=1024)
def _shared(kind: str, terms: str) -> dict[str, Any]:
    """All of a cell but its repeat; `kind` is the text up to that."""
    cell = _cell({**json.loads(f"{kind}}}"), "repeat": 0, "repeats": False}, terms)
    return {n: value for n, value in field_values(cell).items() if n not in ("repeat", "repeats")}


def _cell(value: dict[str, Any], terms: str) -> Cell:
    current = json.loads(terms)
    for part in ("model", "workload"):
        current[part] = {**value[part], **current.get(part, {})}
    return Cell.from_dict({**value, **current})


def parse_record(row: Any, now: float) -> CellRecord:
    """The record of a row of the statements that read cells; `now` is the ledger's time."""
    (
        fingerprint, id, path, state, attempt, tries, token, runner, expires, ready, finished,
        spec, terms,
    ) = row  # fmt: skip
    running = state == "running"
    fields = {
        "fingerprint": fingerprint,
        "id": id,
        "path": path,
        "state": state,
        "attempt": attempt,
        "tries": tries,
        "token": token,
        "runner": runner if running else "",
        "expires_in": expires - now if running and expires is not None else None,
        "ready_in": max(0.0, ready - now) if ready is not None else 0.0,
        "cell": parse_cell(spec, terms) if spec else None,
    }
    return _FinishedRecord.with_outcome(finished, fields) if finished else CellRecord(**fields)


class _FinishedRecord(CellRecord):
    """The record of a cell that has an outcome, which is read when somebody first asks for it:
    most of those of a large campaign are never looked at."""

    @classmethod
    def with_outcome(cls, finished: str, fields: Mapping[str, Any]) -> CellRecord:
        """The record; `finished` is the event that has its outcome, as JSON."""
        # __init__ would want the outcome now
        return build_frozen(cls, {**fields, "finished": finished})

    @cached_property
    def outcome(self) -> Outcome:
        try:
            return Outcome.from_dict(json.loads(vars(self)["finished"])["outcome"])
        except PARSE_ERRORS as error:
            raise _damaged(f"how {self.path} ended") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CellRecord) and field_values(self) == field_values(other)

    __hash__ = CellRecord.__hash__
