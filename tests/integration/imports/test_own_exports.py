"""What `benchfleet export --to lm_eval` writes is read back with the samples of the run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchfleet.cli.main import main
from benchfleet.testing.simulated_server import SimulatedServer
from tiny_models import saved_model

from .conftest import campaign, imported, result

ROWS: list[dict[str, Any]] = [
    {"question": "one\u2028line", "gold": "1", "number": 1.5},
    {"question": "two", "gold": "2", "number": None},
]


def task(folder: Path, name: str, rows: list[dict[str, Any]], target: str) -> None:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / f"{name}.yaml").write_text(
        f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: "
        f"{folder}/{name}.jsonl}}}}\ntest_split: test\noutput_type: generate_until\n"
        f"doc_to_text: 'Question: {{{{question}}}}'\ndoc_to_target: '{target}'\n"
        "generation_kwargs: {until: ['@'], max_gen_toks: 8}\n"
        "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
    )


def samples(folder: Path, config: str, name: str) -> list[dict[str, Any]]:
    file = folder / f"benchmark_results/study/m/{config}/lm_eval_{name}/samples.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_an_export_for_lm_eval_comes_back_with_the_samples_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task(tmp_path, "plain", ROWS, "{{gold}}")
    # A column `target` of the data's own gives way to what was right.
    replaced = [{**row, "target": {"a": 1}} for row in ROWS]
    task(tmp_path, "named", replaced, "{{gold}}")
    benchmarks = ", ".join(f"lm_eval: {{tasks: {t}, include_path: .}}" for t in ("plain", "named"))
    benchmarks = "{" + benchmarks.replace(", lm_eval", "}, {lm_eval") + "}"
    with SimulatedServer() as server:
        model = f'{{name: m, adapter: openai, model: simulated, url: "{server.url}/v1"}}'
        model = model.replace("url:", "api: completions, url:")
        study = campaign(tmp_path, model, benchmarks)
        assert main(["run", str(study), "--cpu-slots", "1"]) == 0
    assert main(["export", str(study), "--to", "lm_eval=out"]) == 0
    capsys.readouterr()
    campaign(tmp_path, model, benchmarks, "dense: null, back: {generation: {temperature: 1}}")
    code, summary = imported(capsys, study, tmp_path / "out", "--config", "back")
    assert (code, summary["left out"], summary["imported"]) == (0, [], 2)
    for name in ("plain", "named"):
        ran, back = (samples(tmp_path, config, name) for config in ("dense", "back"))
        for field in ("id", "columns", "predicted_answer", "score"):
            assert [one[field] for one in back] == [one[field] for one in ran]
    assert main(["report", str(study), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    paired = [one["difference"] for one in entries if one["config"] == "back"]
    assert [(one["n"], one["difference"]) for one in paired] == [(2, 0.0), (2, 0.0)]

    (file,) = (tmp_path / "out").rglob("samples_plain_*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["doc"] for one in lines] == ROWS
    digests = [json.dumps(row, indent=2, ensure_ascii=False).encode() for row in ROWS]
    assert [one["doc_hash"] for one in lines] == [hashlib.sha256(d).hexdigest() for d in digests]
    # The prompt is not kept, and no other text is given for it.
    assert {(json.dumps(one["arguments"]), one["prompt_hash"]) for one in lines} == {("{}", "")}


FILTERS = (
    "filter_list: [{name: strict, filter: [{function: regex, regex_pattern: '^never$'}, "
    "{function: take_first}]}, {name: flexible, filter: [{function: regex, "
    "regex_pattern: '(.)'}, {function: take_first}]}]\n"
)
OF_ALL_KINDS = {
    "texts": "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: '{{c[a]}}'\n"
    "generation_kwargs: {until: ['@'], max_gen_toks: 8}\n"
    "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n" + FILTERS,
    "choices": "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: c\n"
    "doc_to_target: a\nmetric_list:\n"
    "- {metric: acc, aggregation: mean, higher_is_better: true}\n"
    "- {metric: mcc, aggregation: matthews_corrcoef, higher_is_better: true}\n"
    "- {metric: brier_score, aggregation: brier_score, higher_is_better: false}\n",
    "words": "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: q\n"
    "metric_list:\n"
    "- {metric: word_perplexity, aggregation: weighted_perplexity, higher_is_better: false}\n"
    "- {metric: bits_per_byte, aggregation: bits_per_byte, higher_is_better: false}\n",
}


def exported_file(folder: Path, task: str) -> dict[str, Any]:
    (file,) = folder.rglob(f"*lm_eval_{task}+limit8/results_*.json")
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def test_an_export_for_lm_eval_comes_back_with_all_that_its_format_can_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved_model(tmp_path / "tiny", "llama")
    rows = [{"q": f"{n} + 1 =", "c": ["0", "1", "2"], "a": n % 3} for n in range(12)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, text in OF_ALL_KINDS.items():
        data = f"{{data_files: {{test: {tmp_path}/rows.jsonl}}}}"
        head = f"task: {name}\ndataset_path: json\ndataset_kwargs: {data}\ntest_split: test\n"
        (tmp_path / f"{name}.yaml").write_text(f"{head}{text}metadata: {{version: 2.0}}\n")
    model = "{name: m, path: tiny, model_kwargs: {dtype: float32}}"
    benchmark = "lm_eval: {tasks: [texts, choices, words], include_path: ., limit: 8}"
    study = campaign(tmp_path, model, benchmark)
    assert main(["run", str(study), "--cpu-slots", "1"]) == 0
    assert main(["export", str(study), "--to", "lm_eval=out"]) == 0
    capsys.readouterr()
    configs = "dense: null, back: {attention: {local: 4096}}"
    study = campaign(tmp_path, model, benchmark, configs)
    code, summary = imported(capsys, study, tmp_path / "out", "--config", "back")
    assert (code, summary["left out"], summary["imported"]) == (0, [], 3)

    for name in OF_ALL_KINDS:
        task = f"lm_eval_{name}+limit8"
        (ran, _), (back, _) = (result(tmp_path, f"m/{one}/{task}") for one in ("dense", "back"))
        for field in ("overall_score", "task_scores"):
            assert back[field] == ran[field]
        for field in ("metric", "samples", "task_version", "num_fewshot", "lm_eval"):
            assert back["summary"][field] == ran["summary"][field], (name, field)
        assert back["summary"].get("stderr") == pytest.approx(ran["summary"].get("stderr"))
        known = [pytest.approx(one) for one in ran["summary"]["lm_eval_metrics"]]
        assert back["summary"]["lm_eval_metrics"] == known
        assert back["summary"]["lm_eval_documents"] == {"original": 12, "effective": 8}
        one, other = (samples(tmp_path, c, f"{name}+limit8") for c in ("dense", "back"))
        for field in ("id", "columns", "predicted_answer", "score", "parsed"):
            assert [s.get(field) for s in other] == [s.get(field) for s in one], (name, field)

    texts, choices, words = (exported_file(tmp_path / "out", name) for name in OF_ALL_KINDS)
    values = texts["results"]["texts"]
    keys = [key for key in values if "," in key]
    assert keys == [
        f"exact_match{error},{one}" for one in ("strict", "flexible") for error in ("", "_stderr")
    ]
    assert values["exact_match,strict"] == 0.0
    assert texts["n-samples"] == {"texts": {"original": 12, "effective": 8}}
    assert texts["versions"] == {"texts": 2.0}
    better = {"acc": True, "mcc": True, "brier_score": False}
    assert choices["higher_is_better"] == {"choices": better}
    assert "acc_stderr,none" in choices["results"]["choices"]
    better = dict.fromkeys(("word_perplexity", "bits_per_byte"), False)
    assert words["higher_is_better"] == {"words": better}
    assert words["results"]["words"]["word_perplexity,none"] > 0
