"""Logs of Inspect become results of a campaign's cells."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from benchfleet.cli.main import main
from benchfleet.compat.imports.inspect_logs import read_inspect

from .conftest import campaign, imported, result, sums_campaign


def inspect_log(samples: list[dict[str, Any]], status: str = "success") -> dict[str, Any]:
    return {
        "version": 2,
        "status": status,
        "eval": {
            "task": "sums",
            "dataset": {"samples": len(samples)},
            "model": "hf/tiny",
            "config": {"epochs": 1},
            "packages": {"inspect_ai": "0.3.69"},
        },
        "results": {
            "scores": [
                {
                    "name": "match",
                    "metrics": {
                        "accuracy": {"name": "accuracy", "value": 0.5},
                        "stderr": {"name": "stderr", "value": 0.5},
                    },
                }
            ]
        },
        "stats": {"started_at": "2026-01-01T00:00:00+00:00"},
        "samples": samples,
    }


def inspect_sample(identity: int, answer: str, value: str, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer, "source": "generate"}
    return {
        "id": identity,
        "epoch": 1,
        "input": f"{identity} + 1?",
        "target": "2",
        "output": {"model": "hf/tiny", "choices": [{"message": message, "stop_reason": "stop"}]},
        "scores": {"match": {"value": value, "answer": answer}},
        **more,
    }


@pytest.mark.parametrize("form", ["json", "eval"])
def test_a_log_of_inspect(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = inspect_log([inspect_sample(1, "2", "C"), inspect_sample(2, "5", "I")])
    if form == "json":
        (folder / "one.json").write_text(json.dumps(log))
        (folder / "notes.json").write_text("{}")
    else:
        with zipfile.ZipFile(folder / "one.eval", "w") as archive:
            for one in log.pop("samples"):
                archive.writestr(f"samples/{one['id']}_epoch_1.json", json.dumps(one))
            archive.writestr("header.json", json.dumps(log))
    study = sums_campaign(tmp_path)
    code, summary = imported(capsys, study, folder)
    assert (code, summary["left out"], summary["imported"]) == (0, [], 1)
    (path,) = summary["matched"]
    metrics, sealed = result(tmp_path, path)
    assert metrics["overall_score"] == 0.5
    assert sealed["provenance"]["harness"] == "inspect_ai 0.3.69"
    samples = tmp_path / "benchmark_results/study" / path / "samples.jsonl"
    records = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [(r["predicted_answer"], r["score"]) for r in records] == [("2", 1.0), ("5", 0.0)]


def test_epochs_of_inspect_are_answers_to_one_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inspect writes all samples of an epoch before the next one."""
    answers = [(1, 1, "2", "C"), (2, 1, "5", "I"), (1, 2, "2", "C"), (2, 2, "2", "C")]
    log = inspect_log([inspect_sample(n, text, v, epoch=e) for n, e, text, v in answers])
    log["eval"] |= {"config": {"epochs": 2}, "dataset": {"samples": 2}}
    log["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 0.75
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(log))
    (read,) = read_inspect(folder / "one.json")
    kept = [(one["question"], one["draw"], one["predicted_answer"]) for one in read.samples]
    assert kept == [("1", 0, "2"), ("1", 1, "2"), ("2", 0, "5"), ("2", 1, "2")]
    assert read.per_sample == {"accuracy": [1.0, 1.0, 0.0, 1.0]}
    assert (read.answered, read.samples_per_question) == (2, 2)
    (tmp_path / "sums.py").write_text("")
    command = "command: {name: sums, argv: [python, sums.py, '{result}'], files: [sums.py]"
    once = campaign(tmp_path, "{name: tiny, adapter: mock}", f"{command}}}")
    code, summary = imported(capsys, once, folder)
    assert code == 1
    why = "it has 2 answers to each question, and the cell has samples_per_question 1"
    assert why in summary["left out"][0]
    del log["samples"][3]
    (folder / "one.json").write_text(json.dumps(log))
    code, summary = imported(capsys, once, folder)
    assert "has samples that lack some of its 2 epochs" in summary["left out"][0]


def test_what_inspect_gets_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("inspect_ai", reason="Inspect is not installed")
    rows = "mock_benchmark: {samples_per_question: 2, limit: 3}"
    model = "{name: tiny, adapter: mock, model_kwargs: {answer: Ingham}}"
    study = campaign(tmp_path, model, rows, "other: null")
    assert main(["run", str(study)]) == 0
    assert main(["export", str(study), "--to", "inspect"]) == 0
    capsys.readouterr()
    (folder,) = (tmp_path / "benchmark_results/study/tiny/other").iterdir()
    path = str(folder.relative_to(tmp_path / "benchmark_results/study"))
    ran, _ = result(tmp_path, path)
    before = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    for name in ("benchmark_results", "study.ledger.sqlite"):
        one = tmp_path / name
        shutil.rmtree(one) if one.is_dir() else one.unlink(missing_ok=True)
    code, summary = imported(capsys, study, tmp_path / "study-inspect")
    assert (code, summary["left out"], summary["imported"]) == (0, [], 1)
    metrics, _ = result(tmp_path, path)
    after = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    assert metrics["overall_score"] == ran["overall_score"]
    assert 0 < metrics["overall_score"] < 1
    names = ("samples", "stderr", "avg_at_2", "maj_at_2", "pass_at_1")
    assert [metrics["summary"].get(one) for one in names] == [ran["summary"][one] for one in names]
    fields = ("index", "id", "question", "predicted_answer", "score")
    kept = [[{name: one[name] for name in fields} for one in some] for some in (before, after)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    ("samples", "status", "why"),
    [
        ([inspect_sample(1, "2", "C")], "error", "ended as 'error'"),
        ([inspect_sample(1, "", "I", error={"message": "boom"})], "success", "1 of 1 samples"),
    ],
)
def test_a_log_of_inspect_with_failures_is_left_out(
    samples: list[dict[str, Any]],
    status: str,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(inspect_log(samples, status)))
    study = campaign(tmp_path, "{name: tiny, adapter: mock}", "mock_benchmark")
    code, summary = imported(capsys, study, folder)
    assert code == 1
    assert why in summary["left out"][0]
    assert not (tmp_path / "benchmark_results").exists()


def test_a_log_that_inspect_itself_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its zip is compressed by Zstandard, which zipfile alone cannot read before Python 3.14."""
    pytest.importorskip("inspect_ai", reason="Inspect is not installed")
    (tmp_path / "tasks.py").write_text(
        "from inspect_ai import Task, task\n"
        "from inspect_ai.dataset import Sample\n"
        "from inspect_ai.scorer import includes\n"
        "@task\n"
        "def sums():\n"
        "    rows = [Sample(input='1 + 1?', target='2')]\n"
        "    return Task(dataset=rows, solver=[], scorer=includes())\n"
    )
    words = ["eval", "tasks.py@sums", "--model", "mockllm/model", "--log-dir", "old"]
    command = [str(Path(sys.executable).parent / "inspect"), *words, "--display", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    study = campaign(
        tmp_path, "{name: m, adapter: mock, model: mockllm/model}", "inspect: {task: tasks.py@sums}"
    )
    code, summary = imported(capsys, study, tmp_path / "old")
    assert (code, summary.get("imported")) == (0, 1), summary
    metrics, sealed = result(tmp_path, "m/dense/inspect_sums")
    assert metrics["overall_score"] == 0.0  # the task asks nothing, so its one answer is wrong
    assert sealed["provenance"]["harness"] == f"inspect_ai {version('inspect_ai')}"
