"""A benchmark's session that keeps what is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import Record, Score
from benchfleet.domain.cell import Config, Model
from benchfleet.domain.part import Part, Split
from benchfleet.domain.telemetry import Reading
from benchfleet.testing import sample_cell

DENSE = Config(name="dense")


@dataclass
class KeptSession:
    """What the slot gives a benchmark; `stop_after` records it ends."""

    adapter: Any
    model: Model
    subset: str | None
    config: Config = DENSE
    seed: int = 7
    repeat: int = 0
    limit: int | None = None
    part: Part | None = None
    batch_size: int = 1
    samples_per_question: int = 1
    notices: list[str] = field(default_factory=list)
    generation: Mapping[str, Any] = field(default_factory=dict)
    recorded: Sequence[Record] = ()
    show: Any = None
    stop_after: int | None = None
    kept: list[Record] = field(default_factory=list)
    expected: int | None = None
    checkpoints: list[dict[str, float]] = field(default_factory=list)
    scratch: Path = Path()

    @property
    def model_path(self) -> str:
        return self.model.source

    @property
    def samples(self) -> list[Record]:
        """Without what is kept for the next attempt alone."""
        kept = sorted(self.kept, key=lambda record: record.index)
        return [record for record in kept if record.index >= 0]

    def notice(self, message: str) -> None:
        self.notices.append(message)

    def record(self, record: Record) -> None:
        json.dumps(record.to_dict(), allow_nan=False)
        self.kept.append(record)
        self.check_stop()

    def checkpoint(self, metrics: Mapping[str, float]) -> None:
        self.checkpoints.append(dict(metrics))

    def readings(self) -> Sequence[tuple[int, Reading]]:
        return ()

    def check_stop(self) -> None:
        if len(self.kept) == self.stop_after:
            raise KeyboardInterrupt

    def expect(self, total: int) -> None:
        self.expected = total

    def asking(self, count: int, *, sample: int | None = None) -> AbstractContextManager[None]:
        return nullcontext()


def asked_in_parts(
    run: Callable[..., tuple[Score, KeptSession]], count: int, recorded: Sequence[Record] = ()
) -> tuple[list[Record], int]:
    """What `count` parts of a cell leave, as the next attempt reads it, and how many samples they
    asked. `run` takes the session's `part` and `recorded`."""
    left: list[Record] = []
    asked = 0
    for cell in Split.evenly("f", 1, 1, count).cells(sample_cell()):
        score, session = run(part=cell.part, recorded=recorded)
        assert score.per_sample == []
        asked += sum(not record.withdrawn for record in session.samples)
        standing = {r.index: r for r in (*recorded, *session.kept)}
        own = [record for record in standing.values() if not record.withdrawn and record.index >= 0]
        assert len(own) == session.expected
        left += own
    left.sort(key=lambda record: record.index)
    lines = [json.dumps(record.to_dict(), allow_nan=False) for record in left]
    return [Record.from_dict(json.loads(line)) for line in lines], asked
