"""Results of other harnesses become results of a campaign's cells, marked as imported."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchfleet.cli.main import main
from benchfleet.compat.imports.read import read_results
from tiny_models import saved_model

from .conftest import campaign, imported, result


def samples(folder: Path, config: str) -> list[dict[str, Any]]:
    file = folder / "benchmark_results/study/tiny" / config / "lm_eval_sums" / "samples.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


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
    settings = sealed["provenance"]["settings"]
    seeds = {"random_seed": 0, "numpy_seed": 1234, "torch_seed": 1234, "fewshot_seed": 1234}
    assert {name: settings[name] for name in seeds} == seeds
    assert (settings["chat_template"], settings["limit"], settings["num_fewshot"]) == (
        False,
        None,
        0,
    )
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


def test_the_settings_of_a_run_of_lm_eval_are_in_the_provenance(tmp_path: Path) -> None:
    generation = {"until": ["@"], "do_sample": True, "temperature": 0.5}
    seeds = {f"{name}_seed": 7 for name in ("random", "numpy", "torch", "fewshot")}
    content = {
        "results": {"sums": {"acc,none": 0.5}},
        "configs": {"sums": {"generation_kwargs": generation}},
        "config": {"model": "hf", "gen_kwargs": {"temperature": 0.5}, "limit": 30.0, **seeds},
        "system_instruction": "Add.",
        "system_instruction_sha": "5a",
        "chat_template": "{{ messages }}" * 1000,
        "chat_template_sha": "c4",
        "fewshot_as_multiturn": True,
    }
    (tmp_path / "results_1.json").write_text(json.dumps(content))
    ((one,), _) = read_results(tmp_path)
    expected = {
        "generation_kwargs": generation,
        "gen_kwargs": {"temperature": 0.5},
        "limit": 30.0,
        "system_instruction": "Add.",
        "system_instruction_sha": "5a",
        "chat_template": True,
        "chat_template_sha": "c4",
        "fewshot_as_multiturn": True,
        **seeds,
    }
    assert {name: one.settings[name] for name in expected} == expected


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


def test_a_folder_without_results_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = campaign(tmp_path, "{name: tiny, adapter: mock}", "mock_benchmark")
    assert main(["import", str(study), str(tmp_path)]) == 2
    assert "holds no results of lm-eval, inspect, sparse-attention-hub" in capsys.readouterr().err
