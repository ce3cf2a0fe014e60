"""One command runs a matrix, and a second run has nothing left to do."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest

from .conftest import MOCK, User


def test_a_run_publishes_every_cell_and_a_second_one_runs_nothing(user: User) -> None:
    user.write(MOCK)
    first = user.run("run", "study.yaml")
    assert "m1/dense/mock_benchmark" in first.stdout
    assert "benchmark_results/study/report.md" in first.stdout
    before = user.published()
    assert list(before) == ["m1/dense/mock_benchmark", "m2/dense/mock_benchmark"]
    second = user.run("run", "study.yaml")
    assert "all cells are done; nothing was run" in second.stdout
    assert user.published() == before


def test_a_run_that_finds_everything_done_does_not_even_load_the_runner(finished: User) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "benchfleet", "run", "study.yaml"]
    done = subprocess.run(
        words,
        cwd=finished.folder,
        env=finished.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "study: 2 cells · 2 done (2 reused)" in done.stdout
    assert "benchfleet.study" in done.stderr
    assert "benchfleet.runner.loop" not in done.stderr
    assert "benchfleet.reports" not in done.stderr


def test_results_have_the_files_and_formats_that_users_know(user: User) -> None:
    user.write(MOCK)
    user.run("run", "study.yaml")
    folder = user.results / "m1" / "dense" / "mock_benchmark"
    assert {file.name for file in folder.iterdir()} == {
        "cell.json", "config.json", "log.txt", "metrics.json", "raw_results.csv", "samples.jsonl",
    }  # fmt: skip
    metrics = json.loads((folder / "metrics.json").read_text())
    assert set(metrics) == {"overall_score", "task_scores", "summary"}
    with open(folder / "raw_results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    assert {row["predicted_answer"] for row in rows} == {"Ada Brandt"}
    assert (folder / "raw_results.csv").read_text().splitlines()[0].startswith('"')
    cell = json.loads((folder / "cell.json").read_text())
    assert {"fingerprint", "provenance", "files", "cell", "metrics"} <= set(cell)
    assert {"benchfleet", "python", "host", "device", "seed"} <= set(cell["provenance"])
    config = json.loads((folder / "config.json").read_text())
    assert config["model_name"] == "m1"
    summary = json.loads((user.results / "execution_summary.json").read_text())
    assert summary["counts"]["success"] == 2
    assert summary["completeness"] == 1.0


def test_status_counts_before_and_after(user: User) -> None:
    user.write(MOCK)
    before = user.json("status", "study.yaml")
    assert not (user.folder / "benchmark_results").exists()
    user.run("run", "study.yaml")
    after = user.json("status", "study.yaml")
    names = ["total", "pending", "running", "success", "partial", "failed", "skipped", "cancelled"]
    assert [before[name] for name in names] == [2, 2, 0, 0, 0, 0, 0, 0]
    assert [after[name] for name in names] == [2, 0, 0, 2, 0, 0, 0, 0]


def test_only_and_exclude_choose_by_axis(user: User) -> None:
    user.write(MOCK)
    user.run("run", "study.yaml", "--only", "models=m1")
    assert list(user.published()) == ["m1/dense/mock_benchmark"]
    assert user.json("status", "study.yaml", "--exclude", "model=m1")["pending"] == 1
    user.run("run", "study.yaml")
    assert len(user.published()) == 2


def test_a_limit_makes_cells_of_their_own(user: User) -> None:
    user.write(MOCK)
    user.run("run", "study.yaml", "--limit", "2")
    user.run("run", "study.yaml")
    assert set(user.published()) == {
        "m1/dense/mock_benchmark",
        "m1/dense/mock_benchmark+limit2",
        "m2/dense/mock_benchmark",
        "m2/dense/mock_benchmark+limit2",
    }
    limited = user.results / "m1" / "dense" / "mock_benchmark+limit2" / "samples.jsonl"
    assert len(limited.read_text().splitlines()) == 2


def test_changed_content_is_a_new_cell_beside_the_old_one(user: User) -> None:
    user.write(MOCK)
    user.run("run", "study.yaml")
    user.write(MOCK.replace("answer: Ingham", "answer: Varn"))
    user.run("run", "study.yaml")
    marked = [path for path in user.published() if "@" in path]
    assert len(user.published()) == 3
    assert len(marked) == 1
    assert marked[0].startswith("m2/dense/mock_benchmark@")


def test_a_transient_failure_is_tried_again_by_itself(user: User) -> None:
    hostile = f"{{_hostile: {{act: kill, once: {user.folder / 'once'}}}}}"
    user.write(MOCK.replace("[mock_benchmark]", f"[{hostile}]"))
    done = user.run("run", "study.yaml", "--only", "models=m1")
    assert "SIGKILL" in done.stdout
    assert "again in" in done.stdout
    (path,) = user.published()
    assert json.loads(user.published()[path])["provenance"]["resumed_samples"] == 1


def test_json_goes_to_stdout_and_progress_to_stderr(user: User) -> None:
    user.write(MOCK)
    done = user.run("run", "study.yaml", "--json")
    assert json.loads(done.stdout)["counts"]["success"] == 2
    assert "m1/dense/mock_benchmark" in done.stderr


def test_log_json_is_one_object_a_line(user: User) -> None:
    user.write(MOCK)
    done = user.run("run", "study.yaml", "--json", "--log-json")
    kinds = [json.loads(line)["kind"] for line in done.stderr.splitlines()]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_ended"
    assert kinds.count("cell_done") == 2


def test_the_report_says_what_won_in_the_terminal_and_in_markdown(finished: User) -> None:
    assert "0.200 ± 0.200" in finished.run("report", "study.yaml").stdout
    text = finished.run("report", "study.yaml", "--format", "markdown").stdout
    assert text.startswith("#")
    assert text == (finished.results / "report.md").read_text()
    assert finished.json("report", "study.yaml")["counts"]["success"] == 2


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("run", "--help")])
def test_help_and_version(user: User, words: tuple[str, ...]) -> None:
    assert "benchfleet" in user.run(*words).stdout
