"""What the JSON API answers, as OpenAPI describes it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class MachineStatus(BaseModel):
    """A machine, with what it does now. `status` is Running, Silent, Starting or Ended."""

    hostname: str
    phase: str
    status: str
    running: int
    done: int
    failed: int
    silent_seconds: float
    clock_ahead_seconds: float


class StatusAnswer(BaseModel):
    """How far the campaign is; null is what is not known yet."""

    campaign: str
    total: int
    states: dict[str, int]
    share: float | None
    eta_seconds: float | None
    age_seconds: float | None
    error: str
    machines: list[MachineStatus]


class CellAnswer(BaseModel):
    """A cell, with how its last attempt ended. `silent_seconds` is 0 while its lease lasts."""

    id: str
    fingerprint: str
    path: str
    model: str
    config: str
    benchmark: str
    subset: str
    repeat: int
    phase: str
    state: str
    attempt: int
    parts: int
    parts_ended: int
    score: float | None
    samples: int
    seconds: float
    host: str
    device: str
    stage: str
    kind: str
    message: str
    changed_at: float
    silent_seconds: float


class CellsAnswer(BaseModel):
    """A page of cells. `next` is the `after` of the next page; null on the last one."""

    total: int
    cells: list[CellAnswer]
    next: int | None


class AttemptAnswer(BaseModel):
    """One try of a cell."""

    attempt: int
    runner: str
    began_at: float
    ended_at: float | None
    ending: str
    state: str
    host: str
    device: str
    failure: str


class CellDetails(BaseModel):
    """A cell with its attempts and metrics."""

    cell: CellAnswer
    attempts: list[AttemptAnswer]
    metrics: dict[str, Any]


class FailureAnswer(BaseModel):
    """Cells that failed for one reason. `count` is of all of them, also where `cells` is cut."""

    id: str
    stage: str
    kind: str
    message: str
    way_out: str
    count: int
    cells: list[str]


class FailuresAnswer(BaseModel):
    """The groups of failures, the largest first; `total` is of all groups."""

    total: int
    groups: list[FailureAnswer]


class ChangesAnswer(BaseModel):
    """What changed since a cursor; `cells` are pairs: a cell's position, its state's number.
    `results` is another text after each event that changes results or what they cost."""

    cursor: str
    results: str
    changed: bool
    reset: bool
    counts: dict[str, int]
    cells: list[list[int]]
    read_at: float
    store_age: float
    error: str
    now: float
    reading: int  # cells so far, while the ledger is read for the first time; else 0
