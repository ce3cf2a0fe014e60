"""What a running benchmark is given by its slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from benchfleet.domain.cell import Config, Model
from benchfleet.domain.part import Part
from benchfleet.domain.telemetry import Reading
from benchfleet.models.base import Adapter, PromptView

from .records import Record


class Session(Protocol):
    """The interface between a running benchmark and its slot."""

    model: Model  # as declared
    config: Config  # already configured on the adapter
    subset: str | None
    repeat: int  # 0 for the first
    seed: int
    limit: int | None  # samples at most
    part: Part | None  # of a cell that is split: ask these samples alone, and score nothing
    batch_size: int
    samples_per_question: int  # answers to each question; 1 unless the campaign says more
    generation: Mapping[str, Any]
    recorded: Sequence[Record]  # of earlier attempts; do not ask these again

    @property
    def show(self) -> Callable[[PromptView], None] | None:
        """Where a harness that makes tokens itself shows each request in place of asking it, for
        ``plan --prompts``; None in a run."""
        ...

    @property
    def adapter(self) -> Adapter:
        """The loaded model. Raises RuntimeError if `needs_model` is False."""
        ...

    @property
    def model_path(self) -> str:
        """Where the model's files lie on this host, or the name that its adapter knows."""
        ...

    @property
    def scratch(self) -> Path:
        """A folder of this attempt, empty at first. The files in it when `run` returns or raises
        are kept with the results; symbolic links are not."""
        ...

    def readings(self) -> Sequence[tuple[int, Reading]]:
        """What was measured of the slot so far, once a second, each with its `perf_counter_ns`."""
        ...

    def checkpoint(self, metrics: Mapping[str, float]) -> None:
        """Announce numbers of what was measured so far: those of the cell if it ends early."""
        ...

    def record(self, record: Record) -> None:
        """Store one answer at once, before scoring.

        If the cell has to stop, raises a BaseException that is no Exception: do not catch it."""
        ...

    def expect(self, total: int) -> None:
        """Announce the number of samples, for the progress display."""
        ...

    def notice(self, message: str) -> None:
        """Tell the user something that changes no result."""
        ...

    def check_stop(self) -> None:
        """Raise as `record` does if the cell has to stop. For long work between records."""
        ...

    def asking(self, count: int, *, sample: int | None = None) -> AbstractContextManager[None]:
        """Wrap one call of the model: ``limits.generation`` limits its time. `count` is the number
        of prompts, `sample` the index of the first, if known."""
        ...
