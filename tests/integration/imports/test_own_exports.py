"""What `benchfleet export --to lm_eval` writes is read back with the samples of the run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchfleet.cli.main import main
from benchfleet.testing.simulated_server import SimulatedServer

from .conftest import campaign, imported

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
