"""Results of other harnesses become results of a campaign's cells, marked as imported."""

from __future__ import annotations

import csv
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
from tiny_models import saved_model

CAMPAIGN = """\
campaign: study
matrix:
  models: [{model}]
  configs: {{{configs}}}
  benchmarks: [{benchmarks}]
"""


def campaign(folder: Path, model: str, benchmarks: str, configs: str = "dense: null") -> Path:
    file = folder / "study.yaml"
    file.write_text(CAMPAIGN.format(model=model, benchmarks=benchmarks, configs=configs))
    return file


def imported(
    capsys: pytest.CaptureFixture[str], study: Path, folder: Path, *more: str
) -> tuple[int, dict[str, Any]]:
    code = main(["import", str(study), str(folder), "--json", *more])
    out, err = capsys.readouterr()
    assert out, err
    return code, json.loads(out)


def result(folder: Path, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    cell = folder / "benchmark_results" / "study" / path
    metrics, sealed = (json.loads((cell / f).read_text()) for f in ("metrics.json", "cell.json"))
    return metrics, sealed


def samples(folder: Path, config: str) -> list[dict[str, Any]]:
    file = folder / "benchmark_results/study/tiny" / config / "lm_eval_sums" / "samples.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_output_folder_of_lm_eval_gives_the_score_of_a_run_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved_model(tmp_path / "tiny", "llama")
    rows = [{"q": f"{n} + 1 =", "a": str(n % 3)} for n in range(6)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "sums.yaml").write_text(
        f"task: sums\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: "
        f"{tmp_path}/rows.jsonl}}}}\ntest_split: test\noutput_type: multiple_choice\n"
        "doc_to_text: q\ndoc_to_choice: ['0', '1', '2']\ndoc_to_target: '{{a | int}}'\n"
        "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]\n"
    )
    program = (
        "import json, lm_eval\n"
        "from lm_eval.loggers import EvaluationTracker\n"
        "from lm_eval.tasks import TaskManager\n"
        f"args = 'pretrained={model},dtype=float32'\n"
        "tracker = EvaluationTracker(output_path='out')\n"
        "run = lm_eval.simple_evaluate(model='hf', model_args=args, tasks=['sums'], device='cpu',\n"
        "    batch_size=1, bootstrap_iters=0, log_samples=True, evaluation_tracker=tracker,\n"
        "    task_manager=TaskManager(include_path='.', include_defaults=False))\n"
        "samples = run.pop('samples')\n"
        "tracker.save_results_aggregated(results=run, samples=samples)\n"
        "tracker.save_results_samples(task_name='sums', samples=samples['sums'])\n"
        "print(json.dumps(run['results']['sums']['acc,none']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    accuracy = float(done.stdout.splitlines()[-1])
    model_entry = "{name: tiny, path: tiny}"
    benchmark = "lm_eval: {tasks: sums, include_path: .}"
    study = campaign(tmp_path, model_entry, benchmark)

    code, summary = imported(capsys, study, tmp_path / "out", "--dry-run")
    assert (code, list(summary["matched"])) == (0, ["tiny/dense/lm_eval_sums"])
    assert not (tmp_path / "benchmark_results").exists()
    code, summary = imported(capsys, study, tmp_path / "out")
    assert (code, summary["imported"]) == (0, 1)
    metrics, sealed = result(tmp_path, "tiny/dense/lm_eval_sums")
    assert metrics["overall_score"] == accuracy
    assert metrics["summary"]["samples"] == 6
    assert metrics["summary"]["metric"] == "acc"
    assert sealed["provenance"]["origin"] == "imported"
    assert sealed["provenance"]["harness"].startswith("lm-eval 0.4")
    imported_samples = samples(tmp_path, "dense")
    scores = [one["score"] for one in imported_samples]
    assert sum(scores) / 6 == pytest.approx(accuracy)

    assert imported(capsys, study, tmp_path / "out")[1]["already done"] == 1
    other = tmp_path / "other.yaml"
    other.write_text(study.read_text().replace("tasks: sums", "tasks: sums, num_fewshot: 1"))
    code, summary = imported(capsys, other, tmp_path / "out", "--dry-run")
    assert not summary["matched"]
    assert "it has 0 few-shot examples, and the cell has num_fewshot 1" in json.dumps(summary)
    assert main(["verify", str(study)]) == 0
    assert main(["run", str(study), "--cpu-slots", "1"]) == 0  # nothing is left to run
    assert result(tmp_path, "tiny/dense/lm_eval_sums")[1]["provenance"]["origin"] == "imported"

    # Another config of a run here has the same samples, so a report pairs them.
    configs = "dense: null, local: {attention: {local: 2}}, same: {attention: {local: 4096}}"
    study = campaign(tmp_path, model_entry, benchmark, configs)
    assert main(["run", str(study), "--cpu-slots", "1"]) == 0
    for config in ("local", "same"):
        own = samples(tmp_path, config)
        assert [one["id"] for one in own] == [one["id"] for one in imported_samples]
        assert {frozenset(one["columns"]) for one in (*own, *imported_samples)} == {
            frozenset({"q", "a", "target", "loglikelihoods"})
        }
        targets = [[one["columns"]["target"] for one in some] for some in (own, imported_samples)]
        assert targets[0] == targets[1]
    answers = [[one["predicted_answer"] for one in some] for some in (own, imported_samples)]
    assert answers[0] == answers[1]  # the choices; this config attends to all of the prompt
    assert {*answers[1]} <= {"0", "1", "2"}
    capsys.readouterr()
    assert main(["report", str(study), "--json"]) == 0
    entries = {one["config"]: one for one in json.loads(capsys.readouterr().out)["entries"]}
    paired = {name: one["difference"] for name, one in entries.items() if name != "dense"}
    assert {name: one["n"] for name, one in paired.items()} == {"local": 6, "same": 6}
    assert paired["same"]["difference"] == 0


def attention_hub_tree(folder: Path, benchmark: str, subset: str, overall: float) -> Path:
    """A result as sparse-attention-hub's executor writes it."""
    name = f"{benchmark}_{subset}" if subset else benchmark
    cell = folder / "org_tiny" / "streaming" / name
    cell.mkdir(parents=True)
    metrics = {"overall_score": overall, "task_scores": {subset or "all": overall}, "summary": {}}
    (cell / "metrics.json").write_text(json.dumps(metrics))
    settings = {
        "model_kwargs": {},
        "tokenizer_kwargs": {},
        "sparse_attention_config": "ResearchAttentionConfig(...)",
        "generation_kwargs": {"max_new_tokens": 5},
        "request_kwargs": {},
        "benchmark_name": benchmark,
        "subsets_to_run": [subset],
        "huggingface_dataset_id": "x",
    }
    (cell / "config.json").write_text(json.dumps(settings))
    with (cell / "raw_results.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["context", "question", "answers", "predicted_answer"])
        writer.writeheader()
        for n in range(2):
            answer = f"said\n{n}"
            writer.writerow(
                {"context": "c" * 200_000, "question": f"q{n}", "answers": f"['{n}']"}
                | {"predicted_answer": answer}
            )
    return cell


def test_a_results_tree_of_sparse_attention_hub(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old"
    attention_hub_tree(old, "mock_benchmark", "", 0.5)
    attention_hub_tree(old, "other", "", 0.5)
    broken = attention_hub_tree(old, "longbench", "qasper", 41.5)
    (broken / "metrics.json").write_text('{"overall_score": ')
    study = campaign(
        tmp_path, "{name: t, adapter: mock, model: org/tiny}", "mock_benchmark", "streaming: null"
    )
    code, summary = imported(capsys, study, old)
    assert (code, summary["imported"]) == (1, 1)
    assert sorted(line.partition(": ")[2] for line in summary["left out"])[-1] == (
        "the campaign has no benchmark of other"
    )
    assert any("is no whole result" in line for line in summary["left out"])
    metrics, sealed = result(tmp_path, "t/streaming/mock_benchmark")
    assert metrics["overall_score"] == 0.5
    assert sealed["provenance"]["settings"]["generation_kwargs"] == {"max_new_tokens": 5}
    samples = tmp_path / "benchmark_results/study/t/streaming/mock_benchmark/samples.jsonl"
    answers = [json.loads(line)["predicted_answer"] for line in samples.read_text().splitlines()]
    assert answers == ["said\n0", "said\n1"]


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
    (tmp_path / "sums.py").write_text("")
    study = campaign(
        tmp_path,
        "{name: tiny, adapter: mock}",
        "command: {name: sums, argv: [python, sums.py, '{result}'], files: [sums.py]}",
    )
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


def test_a_folder_without_results_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = campaign(tmp_path, "{name: tiny, adapter: mock}", "mock_benchmark")
    assert main(["import", str(study), str(tmp_path)]) == 2
    assert "holds no results of lm-eval, inspect, sparse-attention-hub" in capsys.readouterr().err


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
