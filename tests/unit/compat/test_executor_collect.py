"""What a call shows while it runs, and what it makes of each cell in the end."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from benchfleet.compat.executor.arguments import read_arguments
from benchfleet.compat.executor.collect import ProgressReporter, failure, result, snapshot, stub
from benchfleet.compat.executor.values import AdapterConfig, ExecutionProgress
from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.failure import Failure
from benchfleet.errors import ResultsError
from benchfleet.results.layout import Layout
from benchfleet.runner.progress import Eta, Notice, Progress, Running

SPARSE = {"streaming": 8}
ADAPTER = AdapterConfig("mock")
CONFIGS = [("dense", None), ("window", SPARSE)]
ASKED = read_arguments(Path("/here"), ["org/m1"], CONFIGS, ["mock_benchmark"], ADAPTER, None)
DENSE_CELL, SPARSE_CELL = ASKED.campaign(Path("/results")).matrix.expand()
LAYOUT = Layout(Path("/results"))
SECONDS = {"load": 1.0, "benchmark": 2.0}
FAILURE = Failure(stage="load", kind="oom", message="no memory", trace="Traceback …", log_tail="…")
RECORD = CellRecord(
    fingerprint=SPARSE_CELL.fingerprint,
    id=SPARSE_CELL.id,
    path=SPARSE_CELL.path(marked=False),
    state="success",
    attempt=2,
    tries=1,
    token=2,
    outcome=Outcome(state="success", seconds=SECONDS, host="h", device="gpu:0"),
)
STUB = stub(SPARSE_CELL, RECORD, ASKED, ADAPTER, LAYOUT)


def _progress() -> Progress:
    slots = {
        "a": Running(slot="a", devices="gpu:0", cell="m/c/one", stage="benchmark", done=3, total=9),
        "b": Running(slot="b", devices="gpu:0", cell="m/c/two", stage="load"),
        "c": Running(slot="c", devices="gpu:1+2", cell="m/c/wide", stage="load", since=90.0),
        "d": Running(slot="d", devices="gpu:3"),
    }
    states = {"success": 5, "failed": 1, "partial": 1, "running": 3, "pending": 2}
    return Progress(total=12, reused=2, states=states, slots=slots)


def test_a_snapshot_counts_what_was_there_apart_from_what_was_done() -> None:
    shown = snapshot(_progress(), now=100.0)
    assert (shown.total_stubs, shown.skipped_stubs) == (12, 2)
    assert (shown.completed_stubs, shown.failed_stubs) == (3, 2)
    assert shown.percent == pytest.approx(100 * 7 / 12)


def test_a_snapshot_shows_each_gpu_with_all_that_runs_there() -> None:
    assert snapshot(_progress(), now=100.0).current_executions == {
        0: "m/c/one 3/9, m/c/two load",
        1: "m/c/wide load",
        2: "m/c/wide load",
    }


def test_a_snapshot_tells_the_time_left_where_it_is_known() -> None:
    progress = _progress()
    progress.slots["a"].before = 3  # no sample of this run
    assert snapshot(progress, now=100.0).seconds_left is None
    progress.slots["a"].before = 0
    assert snapshot(progress, now=100.0).seconds_left == pytest.approx(
        100 / 3 * 9 * (5 - 1 / 3) / 3
    )
    progress.eta = Eta(seconds=30.0, spread=4.0, at=95.0)
    assert snapshot(progress, now=100.0).seconds_left == 25.0
    assert snapshot(progress, now=200.0).seconds_left is None  # it took longer


def test_an_empty_matrix_is_all_done() -> None:
    assert snapshot(Progress(), now=0.0).percent == 100.0


def test_every_notice_is_a_snapshot_and_warnings_are_kept_by_cell() -> None:
    seen: list[ExecutionProgress] = []
    watch = ProgressReporter(seen.append, lambda: 100.0)
    watch(Notice(kind="cell_started", cell="m/c/one"), _progress())
    watch(Notice(kind="warning", cell="m/c/one", message="in the way"), _progress())
    assert [shown.total_stubs for shown in seen] == [12, 12]
    assert watch.warnings == {"m/c/one": "in the way"}


def test_a_stub_says_what_the_caller_said() -> None:
    assert STUB.model_name == "org/m1"
    assert STUB.sparse_config_name == "window"
    assert STUB.sparse_attention_config is SPARSE
    assert (STUB.benchmark_name, STUB.subset) == ("mock_benchmark", None)
    assert STUB.adapter_config is ADAPTER
    assert STUB.generation_kwargs == {"max_new_tokens": 16, "temperature": 0}
    assert STUB.result_dir == "/results/org_m1/window/mock_benchmark"
    assert stub(DENSE_CELL, RECORD, ASKED, ADAPTER, LAYOUT).sparse_attention_config is None


def _published(layout: Layout, metrics: Any) -> CellRecord:
    """Put these metrics of the cell at its place, sealed with a headline of 0.5."""
    folder = layout.published(RECORD.path)
    folder.mkdir(parents=True)
    content = json.dumps(metrics).encode()
    (folder / "metrics.json").write_bytes(content)
    seal = json.dumps(
        {
            "format": 1,
            "fingerprint": RECORD.fingerprint,
            "metrics": {"overall_score": 0.5},
            "files": {"metrics.json": sha256(content).hexdigest()},
        }
    ).encode()
    (folder / "cell.json").write_bytes(seal)
    assert RECORD.outcome is not None
    return replace(RECORD, outcome=replace(RECORD.outcome, digest=sha256(seal).hexdigest()))


@pytest.mark.parametrize("own", [{"passed": True}, ["no", "mapping"]])
def test_every_success_has_an_overall_score(tmp_path: Path, own: Any) -> None:
    """Also where a script left metrics.json in its own form."""
    layout = Layout(tmp_path)
    metrics = result(STUB, _published(layout, own), layout, reused=False).metrics
    assert metrics["overall_score"] == 0.5
    assert set(metrics) >= {"task_scores", "summary", *(own if isinstance(own, dict) else ())}


def test_another_result_in_its_place_is_not_taken(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    _published(layout, {"overall_score": 0.987})
    with pytest.raises(ResultsError, match="another result"):
        result(STUB, RECORD, layout, reused=True)


def test_a_success_brings_its_published_metrics(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    record = _published(layout, {"overall_score": 0.5, "task_scores": {"a": 1.0}, "summary": {}})
    found = result(STUB, record, layout, reused=True)
    assert found.metrics == {"overall_score": 0.5, "task_scores": {"a": 1.0}, "summary": {}}
    assert (found.execution_time, found.reused) == (3.0, True)
    assert (found.host, found.device) == ("h", "gpu:0")


def test_a_success_without_metrics_is_a_failure_to_collect_them(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"cell\.json cannot be read"):
        result(STUB, RECORD, Layout(tmp_path), reused=False)
    output = failure(STUB, RECORD, "its metrics cannot be read")
    assert (output.stage, output.error_type) == ("collect", "bad_result")
    assert output.error_message == "its metrics cannot be read"


@pytest.mark.parametrize("state", ["failed", "partial"])
def test_a_failure_brings_its_first_true_reason(state: str) -> None:
    outcome = Outcome(state=state, failure=FAILURE, seconds={"load": 4.0})  # type: ignore[arg-type]
    output = failure(STUB, replace(RECORD, state=state, outcome=outcome), "another reason")  # type: ignore[arg-type]
    assert (output.state, output.stage, output.error_type) == (state, "load", "oom")
    assert (output.error_message, output.traceback) == ("no memory", "Traceback …")
    assert (output.attempts, output.execution_time, output.log_tail) == (2, 4.0, "…")


def test_a_cell_that_never_ran_says_why() -> None:
    output = failure(STUB, replace(RECORD, state="pending", outcome=None), "needs 2 GPUs")
    assert (output.state, output.stage, output.error_message) == (
        "pending",
        "provision",
        "needs 2 GPUs",
    )
    output = failure(STUB, replace(RECORD, state="cancelled", outcome=None), "")
    assert output.error_message == "the cell is cancelled"
