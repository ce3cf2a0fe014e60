"""A cell as the texts that a ledger's row keeps, and a row as the record that callers see."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome
from benchfleet.domain.cell import Cell, Config, Model, Workload, field_values
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Need
from benchfleet.errors import LedgerDamaged

# What reading JSON raises that was changed by hand.
PARSE_ERRORS = (ValueError, TypeError, LookupError, AttributeError)


class CellSerializer:
    """Turns cells into the two texts that are kept of each: what it is, and its terms, which
    follow the campaign while it has not ended.

    The cells of a matrix share their parts, so the text of each part is made once.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[Callable[[Any], Any], int], tuple[object, str]] = {}

    def spec(self, cell: Cell) -> str:
        """What the cell is, as JSON."""
        repeats = "true" if cell.repeats else "false"
        return (
            f'{{"model": {self._text(_model, cell.model)},'
            f' "config": {self._text(_config, cell.config)},'
            f' "workload": {self._text(_workload, cell.workload)},'
            f"{_hardware(cell) if cell.measured_on else ''}{_part(cell)}"
            f' "repeat": {cell.repeat}, "repeats": {repeats}}}'
        )

    def terms(self, cell: Cell) -> str:
        """What is no part of the cell's identity and does not name it, as JSON."""
        phase = f' "phase": {json.dumps(cell.phase)},' if cell.phase else ""
        split = f' "split": {cell.split},' if cell.split != 1 else ""
        return (
            f'{{"need": {self._text(_need, cell.need)},'
            f' "limits": {self._text(field_values, cell.limits)},'
            f' "priority": {cell.priority},{phase}{split}'
            f"{'' if cell.measured_on else _hardware(cell)}"
            f' "model": {self._text(_location, cell.model)},'
            f' "workload": {self._text(_outside, cell.workload)}}}'
        )

    def _text(self, chosen: Callable[[Any], Any], part: object) -> str:
        cached = self._texts.get((chosen, id(part)))
        if cached is None:  # the part is kept alive, so that no other gets its id
            cached = self._texts[chosen, id(part)] = (part, json.dumps(chosen(part)))
        return cached[1]


def _hardware(cell: Cell) -> str:
    """A part of what the cell is if it measures speed, else of its terms; "" if it names none."""
    entries = [field_values(one) for one in cell.hardware]
    return f' "hardware": {json.dumps(entries)},' if entries else ""


def _part(cell: Cell) -> str:
    return f' "part": {json.dumps(cell.part.identity())},' if cell.part else ""


def _need(need: Need) -> dict[str, Any]:
    left_out = {"hardware"} if need.endpoint else {"hardware", "endpoint"}
    return {name: value for name, value in field_values(need).items() if name not in left_out}


# Fields that ledgers which exist do not have are left out at these values, so texts stay the same.
_MODEL_DEFAULTS = {"adapter_version": None, "series": "", "step": None, "lora_digest": ""}
_CONFIG_DEFAULTS: Mapping[str, Any] = {
    "settings": {},
    "mode": "measure",
    "kv_cache": "",
    "chat": None,
    "thinking": None,
}
_WORKLOAD_DEFAULTS = {"samples_per_question": 1, "measures_speed": False}


def _model(model: Model) -> dict[str, Any]:
    fields = {**field_values(model), "model_kwargs": dict(model.model_kwargs)}
    return _without(fields, {"source", "python", "outside", "lora"}, _MODEL_DEFAULTS)


def _location(model: Model) -> dict[str, Any]:
    outside = {"outside": dict(model.outside)} if model.outside else {}
    lora = {"lora": model.lora} if model.lora else {}
    return {"source": model.source, "python": model.python, **outside, **lora}


def _config(config: Config) -> dict[str, Any]:
    fields = {**field_values(config), "attention": [step.to_list() for step in config.attention]}
    return _without(fields, (), _CONFIG_DEFAULTS)


def _workload(workload: Workload) -> dict[str, Any]:
    return _without(field_values(workload), {"outside", "split", "judge"}, _WORKLOAD_DEFAULTS)


def _without(
    fields: Mapping[str, Any], left_out: Collection[str], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        name: value
        for name, value in fields.items()
        if name not in left_out and not (name in defaults and defaults[name] == value)
    }


def _outside(workload: Workload) -> dict[str, Any]:
    judge = {"judge": dict(workload.judge)} if workload.judge else {}
    return {"outside": dict(workload.outside), **judge}


def parse_cell(spec: str, terms: str) -> Cell:
    """The cell that two such texts stand for; those that differ in their repeat share the rest.

    Raises LedgerDamaged where they cannot be read.
    """
    try:
        kind, separator, repeat = spec.rpartition(', "repeat": ')
        number, also, repeats = repeat.partition(', "repeats": ')
        if not (separator and also):
            return _parse(spec, terms)
        first = _parse(f'{kind}, "repeat": 0, "repeats": false}}', terms)
        return replace(first, repeat=int(number), repeats=repeats == "true}")
    except PARSE_ERRORS as error:
        raise _damaged(f"what a cell is: {spec[:80]}") from error


def parse_claim(
    lease: Lease, *, path: str, tries: int, spec: str, terms: str, finished: str | None
) -> Claim:
    """The claim of a cell; `finished` is the data of the cell's last event of this kind."""
    last = Outcome.from_dict(json.loads(finished)["outcome"]) if finished else None
    return Claim(
        lease=lease,
        cell=parse_cell(spec, terms),
        path=path,
        tries=tries,
        retry_of=last if last and last.retry_in is not None else None,
    )


def _damaged(what: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"the ledger is damaged and cannot tell {what}; see `benchfleet ledger check`"
    )


@lru_cache(maxsize=1024)
def _parse(spec: str, terms: str) -> Cell:
    value, current = json.loads(spec), json.loads(terms)
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
    """The record of a cell that has an outcome, which is parsed when it is first needed: most
    outcomes of a large campaign are not, and parsing them all would take most of a run."""

    @classmethod
    def with_outcome(cls, finished: str, fields: Mapping[str, Any]) -> CellRecord:
        """The record; `finished` is the event that has its outcome, as JSON."""
        record = object.__new__(cls)  # __init__ would need the outcome now
        vars(record).update(fields, finished=finished)
        return record

    @cached_property
    def outcome(self) -> Outcome:
        try:
            return Outcome.from_dict(json.loads(vars(self)["finished"])["outcome"])
        except PARSE_ERRORS as error:
            raise _damaged(f"how {self.path} ended") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CellRecord) and field_values(self) == field_values(other)

    __hash__ = CellRecord.__hash__


def parse_event(row: Any) -> Event:
    """The event of a row of the statements that read events."""
    seq, at, kind, fingerprint, data = row
    event = object.__new__(_StoredEvent)  # __init__ would need the data now
    vars(event).update(seq=seq, at=at, kind=kind, fingerprint=fingerprint, text=data)
    return event


class _StoredEvent(Event):
    """An event whose data is parsed when it is first needed: a time line of many attempts needs the
    data of few."""

    @cached_property
    def data(self) -> Mapping[str, Any]:
        try:
            value = json.loads(vars(self)["text"])
        except PARSE_ERRORS as error:
            raise _damaged(f"event {self.seq}") from error
        if not isinstance(value, dict):
            raise _damaged(f"event {self.seq}")
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and field_values(self) == field_values(other)

    __hash__ = Event.__hash__
