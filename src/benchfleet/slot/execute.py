"""Executes one request: loads the model, runs the benchmark, reports the outcome."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchfleet import registry
from benchfleet.benchmarks.asking import split_again
from benchfleet.benchmarks.base import Benchmark, Record, Score
from benchfleet.benchmarks.records import checked_score
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure, Stage
from benchfleet.domain.sample_end import lacks_answer
from benchfleet.domain.telemetry import Reading
from benchfleet.domain.thinking import Thinking
from benchfleet.engines.frames import Frame
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter, Prompt
from benchfleet.slot.batch_size import BatchSizes
from benchfleet.slot.cell_checks import build_benchmark, check_abilities, check_version
from benchfleet.slot.channel import Channel
from benchfleet.slot.classify import classify
from benchfleet.slot.failed_samples import with_failed_samples
from benchfleet.slot.leaks import Leaks
from benchfleet.slot.memory import Memory
from benchfleet.slot.model_stages import free_gpu_memory, prepare_model
from benchfleet.slot.rescoring import refuse_to_run_again
from benchfleet.slot.session import SlotSession, Stop
from benchfleet.slot.telemetry import Sampler


class Executor:
    """Keeps the model of the last cell loaded, and runs one cell after another on it."""

    def __init__(self, channel: Channel, sampler: Sampler | None = None) -> None:
        self._channel, self._sampler = channel, sampler
        self._memory = Memory(sampler.again if sampler else lambda: Reading(at=0.0))
        self._leaks = Leaks()
        self._batches = BatchSizes(os.environ)
        self._adapter: Adapter | None = None
        self._loaded = ""  # the load key of what is in memory, once it is all there
        self._fit = True  # whether all that was unloaded gave its memory back
        self._stage: Stage = "setup"  # of the request at hand
        self._why_unfit = "the memory of the model before did not come back"

    def run(self, request: Frame) -> bool:
        """Run one request; False where this slot should take no other."""
        attempt = request.fields["attempt"]
        cell = Cell.from_dict(request.fields["cell"])
        self._stage = "setup"
        session: SlotSession | None = None
        rescores = request.fields.get("rescore", False)
        seconds = {"load": 0.0, "benchmark": 0.0}
        begun = time.perf_counter()
        if self._sampler and not rescores:
            self._sampler.begin(attempt)
        try:
            self._channel.send("started", attempt=attempt, stage="load")
            benchmark = build_benchmark(cell.workload)
            check_version("benchmarks", cell.workload.benchmark, cell.workload.version)
            self._stage, needs_model = "load", benchmark.needs_model
            if rescores and not (needs_model and benchmark.rescores):
                raise refuse_to_run_again(cell.workload.name)
            needs_model = needs_model and not rescores
            if not self._make_room(cell, needs_model=needs_model):
                why = self._why_unfit
                self._end("stopped", attempt, reason=why, fit=False)
                return False
            adapter = self._load(cell, attempt, seconds) if needs_model else None
            if adapter:
                adapter.switch(cell.model)
                adapter.keeps_errors = cell.limits.sample_errors > 0
                adapter.configure(cell.config)
                check_abilities(benchmark, adapter, cell)
            seconds["load"] = time.perf_counter() - begun - seconds.get("pull", 0.0)
            if attempt in self._channel.stopping:
                raise Stop
            begun = time.perf_counter()
            self._begin(attempt, "benchmark")
            batch: dict[str, Any] = {}
            if request.fields.get("trial"):
                score = _asked_once(adapter, cell)
            else:
                session = self._session(request, cell, benchmark, adapter)
                difference = self._check_batch(attempt, cell, adapter, session.batch_size)
                batch = {"batch_size": session.batch_size, **difference} if adapter else {}
                score = _run(benchmark, session)
            seconds["benchmark"] = time.perf_counter() - begun
            self._end(
                "done",
                attempt,
                score=_plain(score),
                seconds=seconds,
                provenance={**adapter.provenance(), **batch} if adapter else {},
            )
            return True
        except Stop:
            self._end("stopped", attempt, reason="asked to", fit=True)
            return True
        except BaseException as error:  # noqa: BLE001 - a cell's error, sys.exit too, is its outcome
            spent = self._stage if self._stage in ("benchmark", "pull") else "load"
            pulled = seconds.get("pull", 0.0) if spent == "load" else 0.0
            seconds[spent] = time.perf_counter() - begun - pulled
            if session and session.complete:
                self._stage = "collect"  # all of it was answered: what failed is the scoring
            failure = classify(error, self._stage, trace=traceback.format_exc())
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

    def _begin(self, attempt: str, stage: Stage, limit: float | None = None) -> None:
        self._stage = stage
        limited: dict[str, Any] = {} if limit is None else {"limit": limit}
        self._channel.send("started", attempt=attempt, stage=stage, **limited)

    def _load(self, cell: Cell, attempt: str, seconds: dict[str, float]) -> Adapter:
        """The adapter with its model in memory. `seconds` gets the time of a pull."""
        check_version("models", cell.model.adapter, cell.model.adapter_version)
        for step in cell.config.attention:
            check_version("attention", step.name, step.version)
        if self._adapter is not None and self._loaded == cell.model.load_key:
            return self._adapter
        begun = time.perf_counter()
        if prepare_model(
            cell.model,
            begin=lambda stage, limit: self._begin(attempt, stage, limit),
            free=free_gpu_memory(self._sampler.again()) if self._sampler else 0,
        ):
            seconds["pull"] = time.perf_counter() - begun
        self._memory.note_before_load()
        adapter: Adapter = registry.load("models", cell.model.adapter)(cell.model)
        self._adapter = adapter
        adapter.load()  # where it fails, `_recover` unloads what is there
        self._loaded = cell.model.load_key
        self._memory.note_after_load()
        return adapter

    def _session(
        self, request: Frame, cell: Cell, benchmark: Benchmark, adapter: Adapter | None
    ) -> SlotSession:
        rescores = request.fields.get("rescore", False)
        lines = (line for piece in request.attached for line in piece.splitlines())
        recorded = [Record.from_dict(json.loads(line)) for line in lines]
        earlier = [one for one in recorded if rescores or not lacks_answer(one.to_dict())]
        thinking = Thinking.of(cell.config.thinking)
        recorded = [split_again(one, thinking) for one in earlier]
        batch_size = request.fields.get("batch_size") or cell.workload.batch_size
        if not batch_size and adapter and not adapter.independent and not rescores:
            longest = benchmark.longest_prompt(cell.workload.subset)
            batch_size = self._batches.choose(cell, adapter, longest)
        batch_size = max(batch_size, adapter.requests_at_once if adapter else 1, 1)
        session = SlotSession(
            channel=self._channel,
            attempt=request.fields["attempt"],
            adapter=adapter,
            rescores=rescores,
            cell=cell,
            batch_size=batch_size,
            recorded=recorded,
            scratch_folder=Path(request.fields["scratch"]).expanduser(),
            readings=lambda: tuple(self._sampler.readings) if self._sampler else (),
        )
        for before, one in zip(earlier, recorded, strict=True):
            if one is not before:  # by the config's tags it is another answer
                session.record(one)
        return session

    def _check_batch(
        self, attempt: str, cell: Cell, adapter: Adapter | None, size: int
    ) -> dict[str, str]:
        """Warn if greedy answers depend on the batch, and say so in the result."""
        difference = self._batches.difference(cell, adapter, size) if adapter else ""
        if difference:
            message = f"{cell.model.name}: {difference}"
            print(message, file=sys.stderr)
            self._channel.send("warning", attempt=attempt, message=message)
        return {"batch_warning": difference} if difference else {}

    def _recover(self, failure: Failure) -> bool:
        """Unload after a failure that may leak memory; whether the slot is clean."""
        if failure.kind == "oom":
            self._batches.reduce()
        if failure.kind == "gpu_fault":  # nothing can be computed in this process any more
            self.unload()
            return False
        if not self._loaded or failure.kind == "oom":
            return self.unload()
        return self._fit


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
    session.check_errors(session.answered)
    return with_failed_samples(checked_score(score, benchmark), session.failed_positions())


def _plain(score: Score) -> dict[str, Any]:
    unscored = frozenset(score.unscored)
    return {
        "overall": score.overall,
        "per_sample": [None if n in unscored else v for n, v in enumerate(score.per_sample)],
        "tasks": dict(score.tasks),
        "summary": dict(score.summary),
        **({"unparsed": list(score.unparsed)} if score.unparsed else {}),
        **({"parsed": list(score.parsed)} if score.parsed else {}),
        **({"measures": dict(score.measures)} if score.measures else {}),
    }
