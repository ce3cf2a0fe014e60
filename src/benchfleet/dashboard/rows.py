"""One cell as the dashboard shows it: a small row that events bring up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from benchfleet.dashboard.split_cells import PartState
from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.race import RACE, RACE_STOPPED
from benchfleet.domain.rental import KINDS as RENTAL_KINDS
from benchfleet.domain.state import FINAL_STATES
from benchfleet.ledger.history import BILLED
from benchfleet.models.served.recipes import RECIPES
from benchfleet.reports.failures import OwnCode, names_code, own_code_of
from benchfleet.results.summary import averaged_samples

MAX_MESSAGE_CHARACTERS = 500  # of a failure; the cell's page shows all of it
# How a cell is shown: the states of the ledger, and what a pending cell waits for.
ShownState = Literal[
    "pending",
    "retrying",
    "running",
    "success",
    "partial",
    "failed",
    "cancelled",
    "skipped",
]
SHOWN_STATES: tuple[str, ...] = get_args(ShownState)
CHANGING_EVENTS = frozenset(
    {"claimed", "finished", "released", "reaped", "retry_asked", "cancel_asked"}
)
RESULT_EVENTS = frozenset({"retry_asked", "cancel_asked", RACE_STOPPED, *BILLED, *RENTAL_KINDS})


def cell_id(fingerprint: str) -> str:
    """What addresses call a cell."""
    return fingerprint[:20]


@dataclass(slots=True, eq=False)
class Row:
    """One cell, with what its last attempt left."""

    index: int  # its position in the campaign; stable while the server runs
    fingerprint: str
    path: str
    model: str
    config: str
    label: str  # the benchmark with its subset
    benchmark: str
    subset: str
    repeat: int
    phase: str
    folded_path: str  # as searches compare it
    server: str  # of its served model; "" for a model that its slot loads
    own_code: OwnCode  # the user's own files that it runs
    names_code: bool  # these, or its model brings code
    is_speed: bool  # its score is a speed
    state: str = "pending"  # one of SHOWN_STATES
    attempt: int = 0
    runner: str = ""
    host: str = ""
    device: str = ""
    score: float | None = None
    samples: int = 0
    averaged: int = 0  # samples that its score is the mean of; 0 where it is no such mean
    seconds: float = 0.0  # of its last attempt
    stage: str = ""  # of its failure, as the next three
    kind: str = ""
    message: str = ""
    retryable: bool = False
    changed_at: float = 0.0  # seconds since the epoch by the ledger's clock; 0: not known
    version: int = 0  # of the model, at its last change
    parts: int = 0  # that it is split into now
    parts_ended: int = 0
    # In the copy of a running cell's row:
    hosts: tuple[str, ...] = ()  # of its slots
    silent_seconds: float = 0.0  # since its last sign of life, once its lease has expired

    @property
    def id(self) -> str:
        """What addresses call it."""
        return cell_id(self.fingerprint)

    @property
    def group(self) -> tuple[str, str, str]:
        """Its place in the matrix, without the repeat."""
        return self.model, self.config, self.label

    def take_outcome(self, outcome: Outcome | None) -> None:
        """Show how an attempt ended."""
        if outcome is None:
            return
        metrics = outcome.metrics
        score = metrics.get("overall_score")
        self.score = float(score) if isinstance(score, (int, float)) else None
        samples = metrics.get("samples")
        self.samples = int(samples) if isinstance(samples, (int, float)) else 0
        self.averaged = 0 if self.is_speed else averaged_samples(metrics, outcome.reported)
        self.host, self.device = outcome.host, outcome.device
        self.seconds = sum(outcome.seconds.values())
        reason = outcome.reason
        self.stage, self.kind, self.message, self.retryable = "", "", "", False
        if reason is not None:
            self.stage, self.kind, self.retryable = reason.stage, reason.kind, reason.retryable
            self.message = reason.message[:MAX_MESSAGE_CHARACTERS]

    def waiting_state(self) -> str:
        """How it is shown while it is pending."""
        return "retrying" if self.attempt and self.kind else "pending"


def row_of(index: int, cell: Cell, record: CellRecord | None) -> Row:
    """The row of a cell; one without a record is pending."""
    path = record.path if record else cell.path(marked=False)
    row = Row(
        index=index,
        fingerprint=str(record.fingerprint if record else cell.fingerprint),
        path=path,
        model=cell.model.name,
        config=cell.config.name,
        label=cell.label,
        benchmark=cell.workload.name,
        subset=cell.workload.subset or "",
        repeat=cell.repeat,
        phase=cell.phase,
        folded_path=path.casefold(),
        server=_server_of(cell),
        own_code=own_code_of(cell),
        names_code=names_code(cell),
        is_speed=cell.workload.measures_speed,
    )
    if record is not None:
        row.attempt, row.runner = record.attempt, record.runner
        row.take_outcome(record.outcome)
        row.state = row.waiting_state() if record.state == "pending" else record.state
    return row


def _server_of(cell: Cell) -> str:
    """``lab7:8000``, or ``vllm, started by each slot``."""
    if cell.need.endpoint:
        return cell.need.endpoint
    return f"{cell.model.adapter}, started by each slot" if cell.model.adapter in RECIPES else ""


def apply_event(row: Row, event: Event) -> None:
    """Bring a row to what the event says."""
    data: Mapping[str, Any] = event.data
    row.changed_at = event.at
    if event.kind == "claimed":
        row.state, row.runner = "running", str(data["runner"])
        row.attempt = int(data["attempt"])
        row.seconds = 0.0
    elif event.kind == "finished":
        outcome = Outcome.from_dict(data["outcome"])
        row.take_outcome(outcome)
        row.runner = ""
        row.state = outcome.state if outcome.retry_in is None else row.waiting_state()
    elif event.kind == "retry_asked":
        if row.state in FINAL_STATES:
            row.state = row.waiting_state()
    elif event.kind == "cancel_asked":
        if row.state not in FINAL_STATES:
            row.state = "skipped" if data.get("by") == RACE else "cancelled"
            row.runner = ""
    elif row.state == "running":  # released or reaped
        row.state, row.runner = row.waiting_state(), ""


def show_parts(row: Row, parts: Sequence[PartState]) -> None:
    """Show how far the parts of a split cell are; none once it has ended. A cell runs while one of
    its parts does."""
    row.parts, row.parts_ended = len(parts), sum(part.has_ended for part in parts)
    if parts and not row.runner and row.state in ("pending", "retrying", "running"):
        runs = any(part.state == "running" for part in parts)
        row.state = "running" if runs else row.waiting_state()
