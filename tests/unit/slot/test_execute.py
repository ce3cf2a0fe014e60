"""The first true reason of a failure is always reported, whatever goes wrong while cleaning up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.base import Record
from benchfleet.benchmarks.mock_benchmark import MockBenchmark
from benchfleet.engines.frames import Frame
from benchfleet.models.attention.sink import Sink
from benchfleet.models.mock import MockAdapter
from benchfleet.slot.execute import Executor
from benchfleet.slot.session import SlotSession
from benchfleet.testing.sample_cells import sample_cell

FAULT = "CUDA error: an illegal memory access was encountered"


class Heard:
    """A channel that keeps what was sent."""

    def __init__(self) -> None:
        self.stopping: set[str] = set()
        self.frames: list[tuple[str, dict[str, Any]]] = []

    def send(self, type: str, attached: tuple[bytes, ...] = (), **fields: Any) -> None:
        self.frames.append((type, fields))

    hold = send

    @property
    def failed(self) -> dict[str, Any]:
        (fields,) = [fields for type, fields in self.frames if type == "failed"]
        return fields


def raises(message: str) -> Any:
    def method(*given: Any) -> None:
        raise RuntimeError(message)

    return method


def order(folder: Path, *, batch_size: int = 0, answered: int | None = None) -> Frame:
    """A request; `rescore` scores recorded answers again."""
    cell = sample_cell(benchmark="mock_benchmark")
    cell = replace(cell, workload=replace(cell.workload, params=MockBenchmark({}).params()))
    log, scratch = str(folder / "log.txt"), str(folder / "scratch")
    fields: dict[str, Any] = {"attempt": "f/1-1", "cell": cell.to_dict()}
    fields |= {"log": log, "scratch": scratch}
    samples = list(MockBenchmark({}).samples(None, cell.data_seed))[: answered or 0]
    lines = [
        json.dumps(
            Record(index=s.index, id=s.id, columns=s.columns, predicted_answer="x").to_dict()
        )
        for s in samples
    ]
    fields |= {
        "log": log,
        "scratch": scratch,
        "batch_size": batch_size,
        "rescore": answered is not None,
    }
    attached = ("\n".join(lines).encode(),)
    return Frame(type="run", fields=fields, attached=attached)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def executor(heard: Heard) -> Executor:
    return Executor(heard)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "also", [None, "models.mock.MockAdapter.unload", "slot.memory.Memory.came_back"]
)
def test_no_cell_follows_a_gpu_fault_which_is_reported_whatever_else_fails_of_it(
    tmp_path: Path,
    heard: Heard,
    executor: Executor,
    monkeypatch: pytest.MonkeyPatch,
    also: str | None,
) -> None:
    monkeypatch.setattr(MockAdapter, "answer", raises(FAULT))
    if also:
        monkeypatch.setattr(f"benchfleet.{also}", raises("CUDA error again"))
    assert not executor.run(order(tmp_path))
    assert heard.failed["failure"]["kind"] == "gpu_fault"
    assert FAULT in heard.failed["failure"]["message"]
    assert heard.failed["fit"] is False


def test_a_load_that_fails_is_reported_even_where_unloading_fails_too(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MockAdapter, "load", raises("no such weights"))
    monkeypatch.setattr(MockAdapter, "unload", raises("nothing to unload"))
    assert not executor.run(order(tmp_path))
    assert "no such weights" in heard.failed["failure"]["message"]
    assert heard.failed["fit"] is False


def test_a_load_that_fails_leaves_a_slot_that_is_fit_and_holds_no_model(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    unloaded = []
    with monkeypatch.context() as broken:
        broken.setattr(MockAdapter, "load", raises("no such weights"))
        broken.setattr(MockAdapter, "unload", lambda self: unloaded.append(self))
        assert executor.run(order(tmp_path))
    assert len(unloaded) == 1
    assert executor.run(order(tmp_path))
    assert heard.frames[-1][0] == "done"


def test_a_benchmarks_error_is_reported_even_where_its_files_cannot_be_handed_over(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MockAdapter, "answer", raises("the first reason"))
    monkeypatch.setattr(SlotSession, "send_files", raises("the second"))
    assert executor.run(order(tmp_path))
    assert "the first reason" in heard.failed["failure"]["message"]


def test_files_that_cannot_be_handed_over_are_a_failure_by_themselves(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlotSession, "send_files", raises("the files are gone"))
    executor.run(order(tmp_path))
    assert "the files are gone" in heard.failed["failure"]["message"]


def test_a_batch_is_as_large_as_the_order_says(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    answer = MockAdapter.answer

    def counted(self: MockAdapter, prompts: Any, generation: Any) -> Any:
        asked.append(len(prompts))
        return answer(self, prompts, generation)

    monkeypatch.setattr(MockAdapter, "answer", counted)
    assert executor.run(order(tmp_path, batch_size=3))
    assert max(asked) == 3


def test_what_was_answered_is_scored_again_without_a_model(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MockAdapter, "load", raises("it was loaded"))
    assert executor.run(order(tmp_path, answered=99))
    kind, fields = heard.frames[-1]
    assert (kind, fields["provenance"]) == ("done", {})
    assert fields["score"]["overall"] == 0.0


def test_an_answer_that_is_missing_is_named_and_no_model_is_asked(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MockAdapter, "load", raises("it was loaded"))
    assert executor.run(order(tmp_path, answered=2))
    failure = heard.failed["failure"]
    assert (failure["stage"], failure["kind"]) == ("collect", "bad_result")
    assert failure["message"] == "sample 2 was never generated"


@pytest.mark.parametrize("plugin", [MockAdapter, MockBenchmark, Sink])
def test_a_cell_of_another_version_of_a_plugin_is_not_run(
    tmp_path: Path,
    heard: Heard,
    executor: Executor,
    monkeypatch: pytest.MonkeyPatch,
    plugin: Any,
) -> None:
    given = order(tmp_path)
    given.fields["cell"]["model"]["adapter_version"] = 1
    given.fields["cell"]["config"]["attention"] = [["sink", {"sink_size": 4}, 1]]
    monkeypatch.setattr(plugin, "version", 2)
    monkeypatch.setattr(MockAdapter, "load", raises("it was loaded"))
    assert executor.run(given)
    failure = heard.failed["failure"]
    assert (failure["stage"], failure["kind"]) == ("setup", "user_error")
    assert "has version 2 here, but the cell needs 1" in failure["message"]


def test_what_asks_and_scores_in_one_is_not_run_to_score_it_again(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MockBenchmark, "needs_model", False)
    monkeypatch.setattr(MockBenchmark, "run", raises("it was run"))
    executor.run(order(tmp_path, answered=99))
    assert "asks and scores in one" in heard.failed["failure"]["message"]


def test_a_scorer_that_raises_is_reported_as_such(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MockBenchmark, "score", raises("no score"))
    assert executor.run(order(tmp_path))
    assert heard.failed["failure"]["stage"] == "collect"
    assert heard.failed["seconds"]["benchmark"] > 0


@pytest.mark.parametrize("there", [False, True])
def test_a_benchmark_that_needs_what_the_server_lacks_is_refused_before_it_runs(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(MockBenchmark, "abilities", ("ignore_eos", "usage"))
    monkeypatch.setattr(MockAdapter, "abilities", {"usage": True, "ignore_eos": there})
    assert executor.run(order(tmp_path))
    if there:
        assert heard.frames[-1][0] == "done"
        return
    failure = heard.failed["failure"]
    assert (failure["stage"], failure["kind"]) == ("load", "user_error")
    assert "needs ignore_eos, which the server of" in failure["message"]
