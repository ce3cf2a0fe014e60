"""Executing one order: bring the model in, run the benchmark, tell how it went."""

from __future__ import annotations

import json
import shutil
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchfleet import registry
from benchfleet.benchmarks.base import Record, Score
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure, Stage
from benchfleet.engines.frames import Frame
from benchfleet.models.base import Adapter
from benchfleet.slot.channel import Channel
from benchfleet.slot.classify import classify
from benchfleet.slot.memory import Memory

_PIECE = 2**20  # bytes of a file in one frame


class Stop(BaseException):
    """The order was asked to end; passes through a benchmark's own `except Exception`."""


class Executor:
    """Keeps the model of the last cell loaded, and runs one cell after another on it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._memory = Memory()
        self._adapter: Adapter | None = None
        self._loaded = ""  # the load key of what is in memory

    def run(self, order: Frame) -> bool:
        """Run one order; False where this slot should take no other."""
        attempt = order.fields["attempt"]
        cell = Cell.from_dict(order.fields["cell"])
        stage: Stage = "load"
        seconds = {"load": 0.0, "benchmark": 0.0}
        begun = time.perf_counter()
        try:
            self._channel.send("started", attempt=attempt, stage=stage)
            if self._loaded and self._loaded != cell.model.load_key and not self.unload():
                why = "the memory of the model before did not come back"
                self._channel.send("stopped", attempt=attempt, reason=why, fit=False)
                return False
            adapter = self._load(cell)
            adapter.configure(cell.config)
            seconds["load"] = time.perf_counter() - begun
            if attempt in self._channel.stopping:
                raise Stop
            stage, begun = "benchmark", time.perf_counter()
            self._channel.send("started", attempt=attempt, stage=stage)
            score = self._benchmark(order, cell, adapter)
            seconds["benchmark"] = time.perf_counter() - begun
            self._channel.send(
                "done",
                attempt=attempt,
                score=_plain(score),
                seconds=seconds,
                provenance=dict(adapter.provenance()),
            )
            return True
        except Stop:
            self._channel.send("stopped", attempt=attempt, reason="asked to", fit=True)
            return True
        except BaseException as error:  # noqa: BLE001 - a cell's error, sys.exit too, is its outcome
            seconds[stage] = time.perf_counter() - begun
            failure = classify(error, stage, trace=traceback.format_exc())
            traceback.print_exc()
        fit = self._recover(failure)  # outside the handler, whose traceback holds on to tensors
        self._channel.send(
            "failed", attempt=attempt, failure=failure.to_dict(), seconds=seconds, fit=fit
        )
        return fit

    def unload(self) -> bool:
        """Let the model go; whether its memory came back."""
        if self._adapter is None:
            return True
        adapter, self._adapter, self._loaded = self._adapter, None, ""
        adapter.unload()
        del adapter
        return self._memory.came_back()

    def _load(self, cell: Cell) -> Adapter:
        if self._adapter is not None and self._loaded == cell.model.load_key:
            return self._adapter
        self._memory.note_before_load()
        adapter: Adapter = registry.load("models", cell.model.adapter)(cell.model)
        self._adapter, self._loaded = adapter, cell.model.load_key
        try:
            adapter.load()
        except BaseException:
            self.unload()
            raise
        self._memory.note_after_load()
        return adapter

    def _benchmark(self, order: Frame, cell: Cell, adapter: Adapter) -> Score:
        work = cell.workload
        benchmark = registry.load("benchmarks", work.benchmark)(work.params)
        lines = order.attached[0].splitlines() if order.attached else []
        session = SlotSession(
            channel=self._channel,
            attempt=order.fields["attempt"],
            adapter=adapter,
            cell=cell,
            recorded=[Record.from_dict(json.loads(line)) for line in lines],
            place=Path(order.fields["log"] + ".scratch"),
        )
        try:
            score: Score = benchmark.run(session)
        finally:
            session.hand_over()
        return score

    def _recover(self, failure: Failure) -> bool:
        """After a failure that may have left memory behind, start clean."""
        return self.unload() if failure.kind in {"oom", "gpu_fault"} else True


class SlotSession:
    """What a running benchmark is given; see `benchfleet.benchmarks.base.Session`."""

    def __init__(
        self,
        *,
        channel: Channel,
        attempt: str,
        adapter: Adapter,
        cell: Cell,
        recorded: Sequence[Record],
        place: Path,
    ) -> None:
        self._channel = channel
        self._attempt = attempt
        self._done, self._total = len(recorded), 0
        self._place = place
        self._scratch: Path | None = None
        self.adapter = adapter
        self.model = cell.model
        self.config = cell.config
        self.recorded = recorded
        self.subset = cell.workload.subset
        self.seed = cell.data_seed
        self.limit = cell.workload.limit
        self.batch_size = cell.workload.batch_size
        self.generation = {"seed": cell.data_seed, **cell.workload.generation}

    def record(self, record: Record) -> None:
        line = json.dumps(record.to_dict(), allow_nan=False).encode() + b"\n"
        self._done += 1
        self._channel.send(
            "sample", (line,), attempt=self._attempt, done=self._done, total=self._total
        )
        if self._attempt in self._channel.stopping:
            raise Stop

    @property
    def scratch(self) -> Path:
        if self._scratch is None:
            self._scratch = self._place
            self._scratch.mkdir(parents=True)
        return self._scratch

    def hand_over(self) -> None:
        """Send the files of the scratch folder, in pieces, and remove it."""
        if self._scratch is None:
            return
        for file in sorted(self._scratch.rglob("*")):
            if file.is_symlink() or not file.is_file():
                continue
            name = file.relative_to(self._scratch).as_posix()
            with open(file, "rb") as opened:
                piece = opened.read(_PIECE)
                while True:
                    self._channel.send("file", (piece,), attempt=self._attempt, name=name)
                    if not (piece := opened.read(_PIECE)):
                        break
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch = None

    def expect(self, total: int) -> None:
        self._total = total
        self._channel.send("progress", attempt=self._attempt, done=self._done, total=total)


def _plain(score: Score) -> dict[str, Any]:
    return {
        "overall": score.overall,
        "per_sample": list(score.per_sample),
        "tasks": dict(score.tasks),
        "summary": dict(score.summary),
    }
