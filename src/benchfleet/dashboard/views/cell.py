"""One cell: its attempts, samples, log, telemetry and provenance."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchfleet.dashboard.rows import Row
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.event import Event
from benchfleet.errors import ResultsError
from benchfleet.ledger.history import Attempt, attempts_by_cell
from benchfleet.results.layout import SAMPLES, TELEMETRY
from benchfleet.results.logs import Log, log_of
from benchfleet.results.read import sealed
from benchfleet.results.samples import read_samples
from benchfleet.study import Study

PAGE_SAMPLES = 50
MAX_TEXT_CHARACTERS = 20_000  # of one prompt or answer on a page
_MAX_READINGS = 600
SAMPLE_FILTERS = ("all", "wrong", "empty", "cut", "slow")


@dataclass(frozen=True, kw_only=True)
class CellHistory:
    """What the ledger has of one cell."""

    record: CellRecord | None = None
    attempts: Sequence[Attempt] = ()
    events: Sequence[Event] = ()
    is_known: bool = True  # False while the ledger is away


def history_of(study: Study, fingerprint: str) -> CellHistory:
    """Read the events of one cell. Raises LedgerError."""
    return histories_of(study, {fingerprint})[fingerprint]


def histories_of(study: Study, fingerprints: Collection[str]) -> dict[str, CellHistory]:
    """The same of several cells, in one pass over the ledger. Raises LedgerError."""
    nothing = CellHistory()
    ledger = study.open_existing_ledger()
    if ledger is None:
        return dict.fromkeys(fingerprints, nothing)
    with closing(ledger):
        records = {str(one.fingerprint): one for one in ledger.cells(fingerprints=fingerprints)}
        events = ledger.events(fingerprints=fingerprints)
    own: dict[str, list[Event]] = {name: [] for name in fingerprints}
    for event in events:
        own[event.fingerprint].append(event)
    attempts = attempts_by_cell(events)
    return {
        name: CellHistory(
            record=records.get(name), attempts=attempts.get(name, []), events=own[name]
        )
        for name in fingerprints
    }


def cell_log(study: Study, history: CellHistory, number: int | None) -> tuple[Log | None, int]:
    """The log of an attempt, the last one for None, with its number; 0 without attempts."""
    if not history.attempts or history.record is None:
        return None, 0
    chosen = history.attempts[-1]
    if number is not None:
        chosen = next((one for one in history.attempts if one.attempt == number), chosen)
    name = f"{chosen.attempt}-{chosen.token}"
    last = chosen is history.attempts[-1]
    return log_of(study.layout, history.record, name, last=last), chosen.attempt


def folder_of(study: Study, row: Row, history: CellHistory | None = None) -> Path | None:
    """The folder with the cell's samples: its result, or its last attempt; None if not here."""
    with suppress(ResultsError):
        published = study.layout.published(row.path)
        if row.state == "success" and (published / SAMPLES).is_file():
            return published
    if history is not None and history.attempts:
        last = history.attempts[-1]
        folders = study.layout.attempts_called(row.fingerprint, f"{last.attempt}-{last.token}")
        return folders[0] if folders else None
    return None


@dataclass(frozen=True, kw_only=True)
class SamplePage:
    """Some samples of a cell."""

    samples: Sequence[Mapping[str, Any]]
    total: int  # that the filter and the search leave
    recorded: int
    page: int
    pages: int
    is_here: bool  # the result or attempt; its benchmark may report no samples
    has_tokens: bool  # else 0 means that nobody counted them
    has_seconds: bool


def sample_page(folder: Path | None, *, page: int, show: str, text: str) -> SamplePage:
    """A page of the samples, filtered first."""
    samples = samples_in(folder)
    chosen = [one for one in samples if _is_shown(one, show, samples)]
    if text:
        needle = text.casefold()
        chosen = [one for one in chosen if needle in json.dumps(one, default=str).casefold()]
    pages = max(1, -(-len(chosen) // PAGE_SAMPLES))
    page = max(0, min(page, pages - 1))
    begin = page * PAGE_SAMPLES
    return SamplePage(
        samples=chosen[begin : begin + PAGE_SAMPLES],
        total=len(chosen),
        recorded=len(samples),
        page=page,
        pages=pages,
        is_here=folder is not None and (folder / SAMPLES).is_file(),
        has_tokens=any(one.get("prompt_tokens") or one.get("completion_tokens") for one in samples),
        has_seconds=any(one.get("seconds") for one in samples),
    )


def samples_in(folder: Path | None) -> list[dict[str, Any]]:
    """The samples of a result or an attempt, in order; none where they are not here."""
    if folder is None:
        return []
    file = folder / SAMPLES
    try:
        status = file.stat()
        return _read_samples(file, status.st_mtime_ns, status.st_size)
    except OSError:
        return []


@lru_cache(maxsize=8)
def _read_samples(file: Path, _modified: int, _size: int) -> list[dict[str, Any]]:
    return [one for _, one in sorted(read_samples(file).items())]


def _is_shown(sample: Mapping[str, Any], show: str, every: Sequence[Mapping[str, Any]]) -> bool:
    if show == "wrong":
        return isinstance(sample.get("score"), (int, float)) and not is_right(sample)
    if show == "empty":
        return not str(sample.get("predicted_answer") or "").strip()
    if show == "cut":
        return sample.get("finish") == "length"
    if show == "slow":
        seconds = sorted(float(one.get("seconds") or 0.0) for one in every)
        return float(sample.get("seconds") or 0.0) > 2 * (seconds[len(seconds) // 2] or 0.0)
    return True


def is_right(sample: Mapping[str, Any]) -> bool:
    """Whether it has a score of 0.5 or more."""
    score = sample.get("score")
    return isinstance(score, (int, float)) and score >= 0.5


def stack_of(folder: Path | None) -> dict[str, Any]:
    """What the seal of a result says: the cell, its provenance and its files; {} without one."""
    if folder is None:
        return {}
    try:
        return sealed(folder)[0]
    except ResultsError:
        return {}


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of the telemetry, in a box of 600 × 80."""

    name: str
    unit: str
    points: str  # of an SVG polyline
    least: float
    most: float
    seconds: float


def telemetry_of(folder: Path | None) -> list[Curve]:
    """The curves of an attempt's readings; none where it kept none."""
    if folder is None:
        return []
    readings = []
    with suppress(OSError, ValueError):
        for line in (folder / TELEMETRY).read_text("utf-8").splitlines():
            readings.append(json.loads(line))
    if len(readings) < 2:
        return []
    step = max(1, len(readings) // _MAX_READINGS)
    readings = readings[::step]
    series: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for reading in readings:
        at = float(reading.get("at", 0.0))
        if reading.get("ram") is not None:
            series.setdefault(("RAM", "GB"), []).append((at, reading["ram"] / 1e9))
        for gpu in reading.get("gpus", ()):
            name = f"GPU {gpu.get('index')}"
            for key, title, unit, by in (
                ("memory", "memory", "GB", 1e9),
                ("utilisation", "utilisation", "%", 1.0),
                ("power", "power", "W", 1.0),
            ):
                if gpu.get(key) is not None:
                    points = series.setdefault((f"{name} {title}", unit), [])
                    points.append((at, gpu[key] / by))
    return [
        _curve(name, unit, points) for (name, unit), points in series.items() if len(points) > 1
    ]


def _curve(name: str, unit: str, points: Sequence[tuple[float, float]]) -> Curve:
    values = [value for _, value in points]
    most, end = max(values), points[-1][0] or 1.0
    top = max(most, 1e-9)
    text = " ".join(f"{600 * at / end:.1f},{78 - 74 * value / top:.1f}" for at, value in points)
    return Curve(name=name, unit=unit, points=text, least=min(values), most=most, seconds=end)
