"""What torment looks at: results that change, go, or are not what the ledger took."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.witness import Witness
from simulation.invariants import leftovers, result_content, wrong_results

CAMPAIGN = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}, {name: m2, adapter: mock}]
  configs: {dense: null}
  benchmarks: [mock_benchmark]
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that was run, to be copied."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "study.yaml").write_text(CAMPAIGN)
    words = [sys.executable, "-m", "benchfleet", "run", "study.yaml", "--results", "results"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture
def witness(ran: Path, tmp_path: Path) -> Witness:
    """One who saw both results of a campaign."""
    shutil.copytree(ran, tmp_path, dirs_exist_ok=True)
    root = tmp_path / "results" / "study"
    found = Witness(root, root / "ledger.db")
    found.look()
    return found


def test_what_nobody_touched_is_right(witness: Witness, tmp_path: Path) -> None:
    root = tmp_path / "results" / "study"
    witness.look()
    assert witness.wrong == []
    assert list(wrong_results(root, witness.committed())) == []
    assert list(leftovers(root)) == []
    assert [event.kind for event in witness.events()].count("finished") == 2


def test_a_result_that_changes_or_goes_is_seen(witness: Witness, tmp_path: Path) -> None:
    root = tmp_path / "results" / "study"
    shutil.rmtree(root / "m1")
    with open(root / "m2/dense/mock_benchmark/cell.json", "a") as file:
        file.write(" ")
    witness.look()
    assert sorted(witness.wrong) == [
        "m1/dense/mock_benchmark was published and is gone",
        "m2/dense/mock_benchmark was published twice, with different content",
    ]
    assert sorted(wrong_results(root, witness.committed())) == [
        "m1/dense/mock_benchmark is done and not published",
        "m2/dense/mock_benchmark was published, and the ledger knows nothing of it",
    ]


def test_a_change_that_was_announced_is_nobody_s_fault(witness: Witness, tmp_path: Path) -> None:
    with witness.looking_away():
        shutil.rmtree(tmp_path / "results/study/m1")
        witness.forget("m1/dense/mock_benchmark")
    witness.look()
    assert witness.wrong == []


def test_what_is_left_behind_and_what_was_damaged_is_found(
    witness: Witness, tmp_path: Path
) -> None:
    root = tmp_path / "results" / "study"
    (root / ".write-1f").touch()
    (root / "m1/dense/mock_benchmark/metrics.json").write_text("{}")
    (root / ".attempts/cell/1-1").mkdir(parents=True)
    assert sorted(leftovers(root)) == [".attempts/cell/1-1", ".write-1f"]
    assert list(wrong_results(root, witness.committed())) == [
        "m1/dense/mock_benchmark: metrics.json is not as it was sealed"
    ]


def test_answers_are_compared_and_times_are_not(witness: Witness, tmp_path: Path) -> None:
    folder = tmp_path / "results/study/m1/dense/mock_benchmark"
    cell = json.loads((folder / "cell.json").read_text())
    cell["files"]["telemetry.jsonl"] = "0" * 64  # as of a cell that took longer
    (folder / "cell.json").write_text(json.dumps(cell))
    output = result_content(folder)
    assert not [place for place in output if "telemetry" in place]
    assert output["samples.jsonl[0].predicted_answer"] == "mock"
    assert output["metrics.json.overall_score"] == 0.0
    assert not [place for place in output if "seconds" in place]
