"""Executes one request: loads the model, runs the benchmark, reports the outcome."""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchfleet import registry
from benchfleet.benchmarks.base import Benchmark, Record, Score, benchmark_class
from benchfleet.domain.cell import Cell, Workload
from benchfleet.domain.failure import Failure, Stage
from benchfleet.domain.telemetry import Reading
from benchfleet.engines.frames import Frame
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter, Prompt, adapter_class
from benchfleet.slot.channel import Channel
from benchfleet.slot.classify import classify
from benchfleet.slot.leaks import Leaks
from benchfleet.slot.memory import Memory
from benchfleet.slot.rescoring import refuse_to_run_again
from benchfleet.slot.session import SlotSession, Stop
from benchfleet.slot.telemetry import Sampler


class Executor:
    """Keeps the model of the last cell loaded, and runs one cell after another on it."""

    def __init__(self, channel: Channel, sampler: Sampler | None = None) -> None:
        self._channel, self._sampler = channel, sampler
        self._memory = Memory(sampler.again if sampler else lambda: Reading(at=0.0))
        self._leaks = Leaks()
        self._adapter: Adapter | None = None
        self._loaded = ""  # the load key of what is in memory, once it is all there
        self._fit = True  # whether all that was unloaded gave its memory back
        self._why_unfit = "the memory of the model before did not come back"

    def run(self, request: Frame) -> bool:
        """Run one request; False where this slot should take no other."""
        attempt = request.fields["attempt"]
        cell = Cell.from_dict(request.fields["cell"])
        stage: Stage = "setup"
        session: SlotSession | None = None
        rescores = request.fields.get("rescore", False)
        seconds = {"load": 0.0, "benchmark": 0.0}
        begun = time.perf_counter()
        if self._sampler and not rescores:
            self._sampler.begin(attempt)
        try:
            self._channel.send("started", attempt=attempt, stage="load")
            benchmark = _build_benchmark(cell.workload)
            _check_version("benchmarks", cell.workload.benchmark, cell.workload.version)
            stage, needs_model = "load", benchmark.needs_model
            if rescores and not needs_model:
                raise refuse_to_run_again(cell.workload.name)
            needs_model = needs_model and not rescores
            if not self._make_room(cell, needs_model=needs_model):
                why = self._why_unfit
                self._end("stopped", attempt, reason=why, fit=False)
                return False
            adapter = self._load(cell) if needs_model else None
            if adapter:
                adapter.configure(cell.config)
            seconds["load"] = time.perf_counter() - begun
            if attempt in self._channel.stopping:
                raise Stop
            stage, begun = "benchmark", time.perf_counter()
            self._channel.send("started", attempt=attempt, stage=stage)
            if request.fields.get("trial"):
                score = _asked_once(adapter, cell)
            else:
                session = self._session(request, cell, adapter)
                score = _run(benchmark, session)
            seconds["benchmark"] = time.perf_counter() - begun
            self._end(
                "done",
                attempt,
                score=_plain(score),
                seconds=seconds,
                provenance=dict(adapter.provenance()) if adapter else {},
            )
            return True
        except Stop:
            self._end("stopped", attempt, reason="asked to", fit=True)
            return True
        except BaseException as error:  # noqa: BLE001 - a cell's error, sys.exit too, is its outcome
            spent = "benchmark" if stage == "benchmark" else "load"
            seconds[spent] = time.perf_counter() - begun
            if session and session.complete:
                stage = "collect"  # all of it was answered: what failed is the scoring
            failure = classify(error, stage, trace=traceback.format_exc())
            log_text = failure.trace
            if isinstance(error, CellFailure) and error.__cause__ is None:
                log_text = (
                    f"{failure.message}\n"  # which says all: our own frames hide what came before
                )
            print(log_text, end="", file=sys.stderr)  # the log is kept, so without the token
        fit = self._recover(failure)  # outside the handler, whose traceback holds on to tensors
        self._end("failed", attempt, failure=failure.to_dict(), seconds=seconds, fit=fit)
        return fit

    def _end(self, verdict: str, attempt: str, **fields: Any) -> None:
        """Send the verdict, after the last reading and its warnings."""
        reading = self._sampler.end() if self._sampler else None
        if reading is not None and self._sampler and self._loaded:
            for warning in self._leaks.after(self._loaded, reading, self._sampler.again):
                print(warning, file=sys.stderr)
                self._channel.send("warning", attempt=attempt, message=warning)
        self._channel.send(verdict, attempt=attempt, **fields)

    def unload(self) -> bool:
        """Unload the model; whether its memory came back. Errors go to the log."""
        if self._adapter is None:
            return self._fit
        adapter, self._adapter, self._loaded = self._adapter, None, ""
        try:
            adapter.unload()
        except BaseException:  # noqa: BLE001 - the reason to unload, if any, is the one to tell
            traceback.print_exc()
            self._fit = False
        del adapter
        try:
            self._fit = self._fit and self._memory.came_back()
        except Exception:  # noqa: BLE001 - a GPU that was lost cannot be asked any more
            traceback.print_exc()
            self._fit = False
        return self._fit

    def leave(self) -> None:
        """Unload the model as this process ends."""
        if self._adapter is not None:
            try:
                self._adapter.unload()
            except BaseException:  # noqa: BLE001 - it ends all the same
                traceback.print_exc()

    def _make_room(self, cell: Cell, *, needs_model: bool) -> bool:
        """Unload what the cell has no use for; whether its memory came back, and nothing leaks."""
        keep = self._loaded == cell.model.load_key if needs_model else False
        if self._leaks.too_much:
            gib = self._leaks.grown / 2**30
            self._why_unfit = f"the cells before left {gib:.1f} GiB behind in this slot"
            return False
        return keep or self.unload()

    def _load(self, cell: Cell) -> Adapter:
        _check_version("models", cell.model.adapter, cell.model.adapter_version)
        for step in cell.config.attention:
            _check_version("attention", step.name, step.version)
        if self._adapter is not None and self._loaded == cell.model.load_key:
            return self._adapter
        self._memory.note_before_load()
        adapter = adapter_class(cell.model.adapter)(cell.model)
        self._adapter = adapter
        adapter.load()  # where it fails, `_recover` unloads what is there
        self._loaded = cell.model.load_key
        self._memory.note_after_load()
        return adapter

    def _session(self, request: Frame, cell: Cell, adapter: Adapter | None) -> SlotSession:
        lines = (line for piece in request.attached for line in piece.splitlines())
        recorded = [Record.from_dict(json.loads(line)) for line in lines]
        batch_size = request.fields.get("batch_size") or cell.workload.batch_size
        if adapter:
            batch_size = max(batch_size, adapter.requests_at_once)
        return SlotSession(
            channel=self._channel,
            attempt=request.fields["attempt"],
            adapter=adapter,
            rescores=request.fields.get("rescore", False),
            cell=cell,
            batch_size=batch_size,
            recorded=recorded,
            scratch_folder=Path(request.fields["scratch"]).expanduser(),
        )

    def _recover(self, failure: Failure) -> bool:
        """Unload after a failure that may leak memory; whether the slot is clean."""
        if failure.kind == "gpu_fault":  # nothing can be computed in this process any more
            self.unload()
            return False
        if not self._loaded or failure.kind == "oom":
            return self.unload()
        return self._fit


def _check_version(family: registry.Family, name: str, version: int | str | None) -> None:
    """Raises CellFailure where the plugin here is another than the cell was made for."""
    if why := registry.version_mismatch(family, name, version):
        raise CellFailure(stage="setup", kind="user_error", message=why)


def _build_benchmark(work: Workload) -> Benchmark:
    """The benchmark from what the cell says. Raises CellFailure where its local files are not
    those that the campaign was read with."""
    kind = benchmark_class(work.benchmark)
    try:
        benchmark = kind({**work.params, **work.outside})
        digest = benchmark.data_digest(work.subset) if work.data_digest else ""
    except (ValueError, OSError) as error:
        raise CellFailure(stage="setup", kind="user_error", message=str(error)) from error
    if digest != work.data_digest:
        raise CellFailure(
            stage="setup",
            kind="user_error",
            message=_change_message(work, benchmark),
        )
    return benchmark


def _change_message(work: Workload, benchmark: Benchmark) -> str:
    files = [file for file in benchmark.files(work.subset) if file.is_file()]
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    which = f": {newest} was written last" if newest else ""
    return (
        f"{work.name} has changed since the campaign was read{which}; run it again, or name files "
        "that a command writes under its 'outputs'"
    )


def _asked_once(adapter: Adapter | None, cell: Cell) -> Score:
    """Generate one token; the answer is not scored."""
    if adapter is not None:
        settings = {**cell.workload.generation, "seed": cell.data_seed, "max_new_tokens": 1}
        adapter.answer([Prompt(context="One, two, three,")], settings)
    return Score(overall=0.0, per_sample=[])


def _run(benchmark: Benchmark, session: SlotSession) -> Score:
    try:
        score = benchmark.run(session)
    except BaseException:
        try:
            session.send_files()
        except Exception:  # noqa: BLE001 - what ended the benchmark is the reason to tell
            traceback.print_exc()
        raise
    session.send_files()
    return score


def _plain(score: Score) -> dict[str, Any]:
    return {
        "overall": score.overall,
        "per_sample": list(score.per_sample),
        "tasks": dict(score.tasks),
        "summary": dict(score.summary),
    }
