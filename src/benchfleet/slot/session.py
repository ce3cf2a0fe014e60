"""What a running benchmark is given: its cell, the model, and where answers and files go."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import Record
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.telemetry import Reading
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter, PromptView, adapter_class
from benchfleet.slot.channel import Channel
from benchfleet.slot.rescoring import NothingToAsk

_FILE_PIECE_BYTES = 2**20  # bytes of a file in one frame


class Stop(BaseException):
    """The order was asked to end; passes through a benchmark's own `except Exception`."""


class SlotSession:
    """What a running benchmark is given; see `benchfleet.benchmarks.base.Session`."""

    show: Callable[[PromptView], None] | None = None

    def __init__(
        self,
        *,
        channel: Channel,
        attempt: str,
        adapter: Adapter | None,
        cell: Cell,
        batch_size: int,
        recorded: Sequence[Record],
        scratch_folder: Path,
        rescores: bool = False,
        readings: Callable[[], Sequence[tuple[int, Reading]]] = tuple,
    ) -> None:
        self._channel = channel
        self._attempt = attempt
        self._total = 0
        self._reports_calls = cell.limits.generation is not None
        self._scratch_folder = scratch_folder
        self.readings = readings
        self._scratch: Path | None = None
        self._allowed_errors = cell.limits.sample_errors
        self._errors = {r.index: r.error for r in recorded if r.error}
        self._answered = {record.index for record in recorded if record.index >= 0}
        # Answers are recorded apart from the samples, which may have the tokens of theirs too.
        self._records_answers = any(map(_is_answer, recorded))
        self._adapter = NothingToAsk(self._answered) if rescores else adapter
        self.model = cell.model
        self.config = cell.config
        self.recorded = recorded
        self.subset = cell.workload.subset
        self.repeat = cell.repeat
        self.seed = cell.data_seed
        self.limit = cell.workload.limit
        self.part = cell.part
        self.batch_size = batch_size
        self.samples_per_question = cell.workload.samples_per_question
        self.generation: Mapping[str, Any] = {"seed": cell.data_seed, **cell.workload.generation}

    @property
    def adapter(self) -> Any:
        """An `Adapter`; nothing that answers where answers are only scored again."""
        if self._adapter is None:
            raise RuntimeError("this benchmark said that it needs no model, so none is loaded")
        return self._adapter

    @property
    def answered(self) -> int:
        """The samples that are recorded; of a script, its questions."""
        return len(self._answered) or len(self._errors)

    @property
    def complete(self) -> bool:
        """Whether every sample that was to be expected is recorded."""
        return 0 < self._total <= len(self._answered)

    @property
    def model_path(self) -> str:
        return str(adapter_class(self.model.adapter).fetch(self.model) or self.model.source)

    def record(self, record: Record) -> None:
        line = json.dumps(record.to_dict(), allow_nan=False).encode() + b"\n"
        if record.error and not record.withdrawn:
            self._errors[record.index] = record.error
        else:
            self._errors.pop(record.index, None)
        if record.withdrawn:
            self._answered.discard(record.index)
        elif record.index >= 0:
            self._answered.add(record.index)
        self._records_answers |= _is_answer(record)
        counts = record.index < 0 or not self._records_answers
        self._channel.send(
            "sample",
            (line,),
            attempt=self._attempt,
            done=len(self._answered),
            total=self._total,
            prompt_tokens=record.prompt_tokens if counts else 0,
            completion_tokens=record.completion_tokens if counts else 0,
        )
        self.check_stop()
        if record.error and self._total:
            failure = self._too_many_errors(self._total)
            if failure and not (self._adapter and self._adapter.end_asking(failure)):
                raise failure

    def check_errors(self, total: int) -> None:
        """Raise CellFailure if more samples of `total` failed for good than the limit allows."""
        if failure := self._too_many_errors(total):
            raise failure

    def _too_many_errors(self, total: int) -> CellFailure | None:
        """The failure; None where a part has no more than its whole cell may have. Those of all
        parts are counted where they are joined."""
        if self.part:
            total = round(total / self.part.share)
        errors = {index: text for index, text in self._errors.items() if index >= 0}
        errors = errors or self._errors  # a script's own questions
        if len(errors) <= self._allowed_errors * total:
            return None
        message = (
            f"{len(errors)} of {counted(total, 'sample')} failed for good, and "
            f"limits.sample_errors allows {self._allowed_errors:.2g} of them; the last: "
            f"{[*errors.values()][-1]}"
        )
        return CellFailure(stage="benchmark", kind="bad_request", message=message)

    def failed_positions(self) -> list[int]:
        """The positions, among the samples in their order, of those that failed for good."""
        return [n for n, index in enumerate(sorted(self._answered)) if index in self._errors]

    @contextlib.contextmanager
    def asking(self, count: int, *, sample: int | None = None) -> Iterator[None]:
        if not self._reports_calls:
            yield
            return
        self._channel.send("calling", attempt=self._attempt, count=count, sample=sample)
        yield
        self._channel.send("calling", attempt=self._attempt, count=0)

    def notice(self, message: str) -> None:
        print(message, file=sys.stderr)
        self._channel.send("warning", attempt=self._attempt, message=message)

    def check_stop(self) -> None:
        if self._attempt in self._channel.stopping:
            raise Stop

    @property
    def scratch(self) -> Path:
        if self._scratch is None:
            self._scratch = self._scratch_folder
            self._scratch.mkdir(parents=True)
        return self._scratch

    def send_files(self) -> None:
        """Send the files of the scratch folder, in pieces, and remove it."""
        if self._scratch is None:
            return
        for file in sorted(self._scratch.rglob("*")):
            if file.is_symlink() or not file.is_file():
                continue
            name = file.relative_to(self._scratch).as_posix()
            with open(file, "rb") as opened:
                piece = opened.read(_FILE_PIECE_BYTES)
                while True:
                    self._channel.send("file", (piece,), attempt=self._attempt, name=name)
                    if not (piece := opened.read(_FILE_PIECE_BYTES)):
                        break
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch = None

    def checkpoint(self, metrics: Mapping[str, float]) -> None:
        self._channel.send("checkpoint", attempt=self._attempt, metrics=dict(metrics))

    def expect(self, total: int) -> None:
        self._total = total
        self._channel.send("progress", attempt=self._attempt, done=len(self._answered), total=total)


def _is_answer(record: Record) -> bool:
    """Whether it is an answer of the model that is no sample by itself, with its tokens."""
    return record.index < 0 and record.prompt_tokens + record.completion_tokens > 0
