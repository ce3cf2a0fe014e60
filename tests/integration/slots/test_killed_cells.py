"""Cells whose slot is killed in the middle, again and again: real slots, real signals. Those with a
real model, which take seconds to load it, are killed once."""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchfleet import registry
from benchfleet.domain.attempt import Lease
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    Done,
    EngineEvent,
    Failed,
    Recorded,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
    Stopped,
)
from benchfleet.engines.local import LocalEngine
from benchfleet.models.transformers import TransformersAdapter
from benchfleet.results.layout import Layout
from benchfleet.results.samples import count_samples, earlier_samples
from benchfleet.results.write import AttemptFolder, Verdict

EXAMPLES = Path(__file__).parents[3] / "examples" / "recall"
KILLS = 2
SEED = int(os.environ.get("KILL_SEED", "0"))  # of the moments; `make soak` draws others
_LONG = 120.0  # seconds: a bound on the wait for an event that must come, never a measure

OWN = """\
import random


def evaluate(adapter, seed, rows):
    rng = random.Random(seed)
    questions = [f"{rng.random()} said {number}?" for number in range(rows)]
    answers = adapter.generate(questions, max_new_tokens=4)
    answers[0] = adapter.generate(questions[0] + answers[-1], max_new_tokens=2)
    samples = [
        {"id": q, "score": len(a) % 2, "predicted_answer": a} for q, a in zip(questions, answers)
    ]
    return {"accuracy": sum(map(len, answers)) / rows, "samples": samples}
"""


def mock_model() -> Model:
    settings = {"answer": "Ada Brandt", "seconds": 0.02}
    return Model(name="m", adapter="mock", source="m", digest="m", model_kwargs=settings)


def tiny_model() -> Model:
    source = str(EXAMPLES / "model")
    digest = TransformersAdapter.digest(source)
    kwargs = {"dtype": "float32"}
    return Model(
        name="tiny", adapter="transformers", source=source, digest=digest, model_kwargs=kwargs
    )


def cell_of(model: Model, benchmark: str, params: dict[str, Any], **given: Any) -> Cell:
    kind = registry.load("benchmarks", benchmark)
    made = kind(params)
    work = Workload(
        benchmark=benchmark,
        version=kind.version,
        params=made.params(),
        outside=made.outside(),
        data_digest=made.data_digest(given.get("subset")),
        **given,
    )
    return Cell(model=model, config=Config(name="dense"), workload=work)


class Killer:
    """Runs attempts of a cell in slots of their own, keeps what they record as a runner does, and
    kills a slot after a number of samples."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
        self.engine = LocalEngine(self.events.put)
        self.attempts = 0
        self.recorded: list[int] = []  # lines that each attempt recorded
        self._idle: tuple[SlotId, int] | None = None  # a slot whose attempt was done, and its pid

    def until(self, *kinds: type[EngineEvent]) -> Any:
        while not isinstance(event := self.events.get(timeout=_LONG), kinds):
            continue
        return event

    def slot(self) -> tuple[SlotId, int]:
        """A slot that is free, and its pid: the one that is left, or a new one."""
        if self._idle is None:
            slot = SlotId(uuid.uuid4().hex)  # what bears its mark is ended with it
            cpu, log = (Device(kind="cpu", index=0),), str(self.folder / "slot.log")
            self.engine.open(SlotSpec(slot=slot, devices=cpu, threads=1, log=log))
            ready = self.until(SlotReady, SlotLost)
            assert isinstance(ready, SlotReady), ready
            return slot, ready.hello["pid"]
        (free, self._idle) = (self._idle, None)
        return free

    def attempt(self, cell: Cell, place: str, *, kill_after: int | None = None) -> Done | None:
        """One attempt; None where its slot was killed before it was done."""
        self.attempts += 1
        layout = Layout(self.folder / place)
        lease = Lease(fingerprint=cell.fingerprint, attempt=self.attempts, token=1, expires_in=60.0)
        recorded = earlier_samples(layout.attempts_of(cell.fingerprint))
        self.attempt_folder = AttemptFolder(layout.attempt(lease))
        self.attempt_folder.record(recorded)
        slot, pid = self.slot()
        key = f"{cell.fingerprint}/{self.attempts}-1"
        request = AttemptRequest(
            attempt=key, cell=cell, log=str(self.attempt_folder.log), recorded=recorded
        )
        self.engine.run(slot, request)
        self.recorded.append(0)
        while True:
            event = self.until(Recorded, Done, Failed, Stopped, SlotLost)
            if isinstance(event, Recorded):
                self.attempt_folder.record(event.lines)
                self.recorded[-1] += 1
                if self.recorded[-1] == kill_after:
                    os.kill(pid, signal.SIGKILL)
            elif isinstance(event, Done):
                self._idle = slot, pid
                return event
            else:
                assert isinstance(event, SlotLost), event
                assert event.exit_code == -signal.SIGKILL, event
                assert kill_after is not None
                self.attempt_folder.close()
                return None

    def sealed(self, cell: Cell, done: Done) -> tuple[list[dict[str, Any]], Any]:
        """The samples and metrics as they are published, without what is measured again."""
        verdict = Verdict(score=done.score, seconds={}, provenance={})
        self.attempt_folder.seal(cell, "m/dense/x", verdict)
        folder = self.attempt_folder.folder
        samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
        metrics = json.loads((folder / "metrics.json").read_text())
        for measured in ("seconds", "tokens_per_second"):
            metrics["summary"] = {
                name: value for name, value in metrics["summary"].items() if measured not in name
            }
        return [{**sample, "seconds": 0} for sample in samples], metrics


@pytest.fixture
def killer(tmp_path: Path) -> Iterator[Killer]:
    made = Killer(tmp_path)
    yield made
    made.engine.shutdown()


def check(killer: Killer, cell: Cell, seed: int, *, wasted: int, most: int = KILLS) -> None:
    """Killed at random moments it ends as it does undisturbed, and each kill has at most `wasted`
    lines recorded again."""
    done = killer.attempt(cell, "undisturbed")
    assert done is not None
    whole, lines = killer.sealed(cell, done), killer.recorded.pop()
    rng = random.Random(seed)
    kills = 0
    for _ in range(most):
        done = killer.attempt(cell, "killed", kill_after=rng.randint(1, max(1, lines // KILLS)))
        if done is not None:
            break
        kills += 1
    done = done or killer.attempt(cell, "killed")
    assert done is not None
    assert kills >= 1
    assert killer.sealed(cell, done) == whole
    assert sum(killer.recorded) <= lines + wasted * kills


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize(
    ("benchmark", "params"),
    [("mock_benchmark", {"rows": 25}), ("recall", {"samples": 9})],
)
def test_samples_are_recorded_once_and_the_result_is_that_of_an_undisturbed_run(
    killer: Killer, benchmark: str, params: dict[str, Any], batch_size: int
) -> None:
    cell = cell_of(mock_model(), benchmark, params, batch_size=batch_size)
    check(killer, cell, SEED, wasted=0)


def test_a_callable_of_one_s_own_goes_on_after_its_last_answer(
    killer: Killer, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    params = {
        "name": "own",
        "call": "own:evaluate",
        "params": {"rows": 12},
        "folder": str(tmp_path),
    }
    cell = cell_of(mock_model(), "python", params, batch_size=3)
    check(killer, cell, SEED, wasted=12)  # the samples of the report, where it was killed at these


def test_a_real_model_s_answers_in_batches_are_those_of_an_undisturbed_run(
    killer: Killer,
) -> None:
    pytest.importorskip("transformers")
    generation = {"max_new_tokens": 3, "temperature": 0}
    cell = cell_of(
        tiny_model(), "recall", {"samples": 14}, subset="128", batch_size=4, generation=generation
    )
    check(killer, cell, 5, wasted=0, most=1)


@pytest.mark.parametrize("task", ["recall_choice", "recall_generate"])
def test_tasks_of_lm_eval_go_on_after_their_last_answer(killer: Killer, task: str) -> None:
    pytest.importorskip("lm_eval")
    params = {"folder": str(EXAMPLES), "include_path": "tasks"}
    cell = cell_of(tiny_model(), "lm_eval", params, subset=task, batch_size=3, limit=14)
    check(killer, cell, 7, wasted=0, most=1)


def test_what_is_kept_for_the_next_attempt_alone_counts_as_no_sample(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    lease = Lease(fingerprint=mock_cell().fingerprint, attempt=1, token=1, expires_in=60.0)
    folder = AttemptFolder(layout.attempt(lease))
    for index in (0, -1, 1, -2):
        line: dict[str, object] = {"index": index, "id": str(index), "columns": {}}
        line["predicted_answer"] = "x"
        folder.record(json.dumps(line).encode() + b"\n")
    gone = {"index": 1, "id": "1", "columns": {}, "predicted_answer": "", "withdrawn": True}
    folder.record(json.dumps(gone).encode() + b"\n")
    kept = earlier_samples(layout.attempts_of(lease.fingerprint))
    assert [json.loads(line)["index"] for line in kept.splitlines()] == [0, -1, -2]
    assert count_samples(kept) == 1
    score = {"overall": 1.0, "per_sample": [1.0], "tasks": {}, "summary": {}}
    folder.seal(mock_cell(), "m/dense/x", Verdict(score=score, seconds={}, provenance={}))
    sealed = (folder.folder / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in sealed] == [0]


def mock_cell() -> Cell:
    return cell_of(mock_model(), "mock_benchmark", {})
