"""What happened last in a campaign, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchfleet.dashboard.model import ReadModel
from benchfleet.domain.campaign_record import CAMPAIGN_RECORDED
from benchfleet.domain.event import Event
from benchfleet.domain.humanize import counted
from benchfleet.domain.part import SPLIT
from benchfleet.domain.race import RACE_STOPPED, RaceStop
from benchfleet.domain.rental import KINDS as RENTAL_KINDS
from benchfleet.domain.slots import (
    ADDED,
    ANSWERED,
    BEGAN,
    ENDED,
    FREED,
    REMOVED,
    REQUESTED,
    answer_of,
)

_RUNNER_CHARACTERS = 8


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something that happened, for people."""

    at: float  # seconds since the epoch by the ledger's clock
    text: str
    cell: str = ""  # the id of the cell's page; "" for none
    path: str = ""  # of that cell
    kind: str = ""  # good, bad or ""


def notices(model: ReadModel, most: int) -> list[Notice]:
    """The last things that happened, the newest first; the lock of the model is held."""
    newest: list[Notice] = []
    for event in reversed(model.events):
        if event.kind == "claimed" or _is_list(event):
            continue  # the running cells show it; a look at the slots changes nothing
        newest.append(notice_of(event, model))
        if len(newest) == most:
            break
    return newest


def notice_of(event: Event, model: ReadModel | None = None) -> Notice:
    """One event in words."""
    row = model.by_fingerprint.get(event.fingerprint) if model else None
    text, kind = _text(event)
    if row is None and model and (part := model.split_cells.parts.get(event.fingerprint)):
        row, text = model.by_fingerprint.get(part.whole), f"a part: {text}"
    cell, path = (row.id, row.path) if row else ("", "")
    return Notice(at=event.at, text=text, cell=cell, path=path, kind=kind)


def _text(event: Event) -> tuple[str, str]:
    data = event.data
    runner = str(data.get("runner", ""))[:_RUNNER_CHARACTERS]
    by = f" by {data['by']}" if data.get("by") else ""
    if event.kind == "finished":
        return _finished(data)
    texts = {
        "enrolled": f"{counted(int(data.get('new') or 0), 'cell')} enrolled",
        "claimed": f"claimed by runner {runner}, attempt {data.get('attempt')}",
        "released": f"released: {data.get('reason', '')}",
        "reaped": f"the lease of runner {runner} expired",
        "retry_asked": f"retry ordered{by}",
        "cancel_asked": f"cancel ordered{by}",
        BEGAN: f"runner {runner} began on {data.get('host') or data.get('machine')}",
        ENDED: f"runner {runner} ended",
        REQUESTED: f"{data.get('action')} {_names(data.get('devices', ()))} ordered{by}",
        ANSWERED: _answered(event) if event.kind == ANSWERED else "",
        ADDED: f"added {_names(data.get('devices', ()))}{by}",
        REMOVED: f"removed {_names(data.get('devices', ()))}{by}",
        FREED: f"free: {_names(data.get('devices', ()))}",
        RACE_STOPPED: f"race: {RaceStop.of_event(event)}" if event.kind == RACE_STOPPED else "",
        "gate_opened": f"gate of {data.get('phase')} opened by {data.get('by')}",
        "gate_closed": _closed(data),
        "gate_forgotten": f"gate of {data.get('phase')} is undecided again",
        SPLIT: f"split into {counted(len(data.get('parts', ())), 'part')}",
        **dict.fromkeys(RENTAL_KINDS, f"rented machine {data.get('id')}: {_rental_step(event)}"),
        CAMPAIGN_RECORDED: "a run recorded the campaign's definition",
        "results_told": "results were reported",
        "probed": "a machine reported its capabilities",
        "assigned": "the cells were assigned to machines",
    }
    kind = "bad" if event.kind in ("gate_closed", "reaped", "host_lost") else ""
    return texts.get(event.kind, event.kind.replace("_", " ")), kind


def _is_list(event: Event) -> bool:
    data = event.data
    if event.kind == ANSWERED:
        return not data.get("said") and not data.get("refused")
    return event.kind == REQUESTED and data.get("action") == "list"


def _closed(data: Mapping[str, Any]) -> str:
    """``gate of e0 closed: score > 0.5 · score is 0.4``"""
    why = data.get("why") or "; ".join(map(str, data.get("numbers") or ()))
    reasons = " · ".join(map(str, filter(None, (data.get("expression"), why))))
    return f"gate of {data.get('phase')} closed" + (f": {reasons}" if reasons else "")


def _answered(event: Event) -> str:
    """``runner 8f3a5b1c accepted: gpu:0 is drained``"""
    answer = answer_of(event)
    messages = _names((*answer.done, *answer.refused))
    return f"runner {answer.runner[:_RUNNER_CHARACTERS]} {answer.verdict}: {messages}"


def _rental_step(event: Event) -> str:
    """``created``, or ``returning: idle``."""
    why = f": {event.data['why']}" if event.data.get("why") else ""
    return event.kind.removeprefix("rental_") + why


def _finished(data: Mapping[str, Any]) -> tuple[str, str]:
    outcome = data["outcome"]
    failure = outcome.get("first") or outcome.get("failure")
    if outcome.get("state") == "success":
        score = outcome.get("metrics", {}).get("overall_score")
        done = "taken from the result cache" if outcome.get("taken_from") else "done"
        return (f"{done}, score {score:.3f}" if isinstance(score, (int, float)) else done), "good"
    why = f": {failure['stage']}, {failure['kind']}" if failure else ""
    again = "; it is tried again" if outcome.get("retry_in") is not None else ""
    return f"{outcome.get('state')}{why}{again}", "bad"


def _names(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names))
