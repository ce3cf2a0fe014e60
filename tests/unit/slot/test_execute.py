"""The first true reason of a failure is always told, whatever goes wrong while cleaning up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.mock_benchmark import MockBenchmark
from benchfleet.engines.frames import Frame
from benchfleet.models.mock import MockAdapter
from benchfleet.slot.execute import Executor, SlotSession
from benchfleet.testing.samples import sample_cell

FAULT = "CUDA error: an illegal memory access was encountered"


class Heard:
    """A channel that keeps what was sent."""

    def __init__(self) -> None:
        self.stopping: set[str] = set()
        self.frames: list[tuple[str, dict[str, Any]]] = []

    def send(self, type: str, attached: tuple[bytes, ...] = (), **fields: Any) -> None:
        self.frames.append((type, fields))

    @property
    def failed(self) -> dict[str, Any]:
        (fields,) = [fields for type, fields in self.frames if type == "failed"]
        return fields


def raises(message: str) -> Any:
    def method(*given: Any) -> None:
        raise RuntimeError(message)

    return method


def order(folder: Path) -> Frame:
    cell = sample_cell(benchmark="mock_benchmark")
    cell = replace(cell, workload=replace(cell.workload, params=MockBenchmark({}).params()))
    log, scratch = str(folder / "log.txt"), str(folder / "scratch")
    fields = {"attempt": "f/1-1", "cell": cell.to_dict(), "log": log, "scratch": scratch}
    return Frame(type="run", fields=fields)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def executor(heard: Heard) -> Executor:
    return Executor(heard)  # type: ignore[arg-type]


def test_a_gpu_fault_is_told_even_where_unloading_fails_of_it_too(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MockAdapter, "answer", raises(FAULT))
    monkeypatch.setattr(MockAdapter, "unload", raises("CUDA error again"))
    assert not executor.run(order(tmp_path))
    assert heard.failed["failure"]["kind"] == "gpu_fault"
    assert FAULT in heard.failed["failure"]["message"]
    assert heard.failed["fit"] is False


def test_a_load_that_fails_is_told_even_where_unloading_fails_too(
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


def test_a_benchmarks_error_is_told_even_where_its_files_cannot_be_handed_over(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MockAdapter, "answer", raises("the first reason"))
    monkeypatch.setattr(SlotSession, "hand_over", raises("the second"))
    assert executor.run(order(tmp_path))
    assert "the first reason" in heard.failed["failure"]["message"]


def test_files_that_cannot_be_handed_over_are_a_failure_by_themselves(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlotSession, "hand_over", raises("the files are gone"))
    executor.run(order(tmp_path))
    assert "the files are gone" in heard.failed["failure"]["message"]


def test_a_gpu_that_cannot_be_asked_after_unloading_makes_the_slot_unfit(
    tmp_path: Path, heard: Heard, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MockAdapter, "answer", raises(FAULT))
    monkeypatch.setattr("benchfleet.slot.memory.Memory.came_back", raises("GPU is lost"))
    assert not executor.run(order(tmp_path))
    assert FAULT in heard.failed["failure"]["message"]
    assert heard.failed["fit"] is False
