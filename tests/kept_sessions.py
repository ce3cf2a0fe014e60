"""A benchmark's session that keeps what is recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from benchfleet.benchmarks.base import Record
from benchfleet.domain.cell import Config, Model

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
    batch_size: int = 1
    generation: Mapping[str, Any] = field(default_factory=dict)
    recorded: Sequence[Record] = ()
    stop_after: int | None = None
    kept: list[Record] = field(default_factory=list)
    expected: int | None = None

    @property
    def model_path(self) -> str:
        return self.model.source

    @property
    def samples(self) -> list[Record]:
        """Without what is kept for the next attempt alone."""
        kept = sorted(self.kept, key=lambda record: record.index)
        return [record for record in kept if record.index >= 0]

    def record(self, record: Record) -> None:
        json.dumps(record.to_dict(), allow_nan=False)
        self.kept.append(record)
        self.check_stop()

    def check_stop(self) -> None:
        if len(self.kept) == self.stop_after:
            raise KeyboardInterrupt

    def expect(self, total: int) -> None:
        self.expected = total

    def asking(self, count: int, *, sample: int | None = None) -> AbstractContextManager[None]:
        return nullcontext()
