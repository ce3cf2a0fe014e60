"""What an import says of how the answers ended is what the other harness says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchfleet.cli.main import main

from .conftest import imported, sums_campaign
from .test_inspect_imports import inspect_log, inspect_sample
from .test_whole_results import DATE, lines, lm_eval_output


def imported_samples(
    capsys: pytest.CaptureFixture[str], source: Path
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The samples and the metrics of the task ``sums`` in the cell that it was imported for."""
    folder = Path.cwd()
    study = sums_campaign(folder)
    code, summary = imported(capsys, study, source)
    assert (code, summary["left out"], summary["imported"]) == (0, [], 1)
    assert main(["report", str(study)]) == 0
    assert main(["verify", str(study)]) == 0
    cell = folder / "benchmark_results/study/tiny/dense/sums"
    samples = [json.loads(line) for line in (cell / "samples.jsonl").read_text().splitlines()]
    return samples, json.loads((cell / "cell.json").read_text())["metrics"]


def with_output_type(out: Path, output_type: str) -> Path:
    file = out / f"results_{DATE}.json"
    configs = {"configs": {"sums": {"output_type": output_type}}}
    file.write_text(json.dumps(json.loads(file.read_text()) | configs))
    return out


def test_texts_of_lm_eval_have_what_its_filter_took_and_no_invented_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [
        {**line, "filtered_resps": [f"{line['filter']} {line['doc_id']}"]}
        for line in lines(0, 1, 2)
    ]
    out = with_output_type(lm_eval_output(tmp_path / "out", {"sums": some}), "generate_until")
    samples, metrics = imported_samples(capsys, out)
    assert [one["parsed"] for one in samples] == ["strict 0", "strict 1", "strict 2"]
    assert [one["score"] for one in samples] == [0.0, 1.0, 0.0]
    assert not any("ended" in one for one in samples)
    assert not any(name.startswith("ended") for name in metrics)


def test_results_of_lm_eval_without_settings_of_their_task_have_no_parsed_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = lm_eval_output(tmp_path / "out", {"sums": lines(0, 1, 2)})
    samples, _ = imported_samples(capsys, out)
    assert not any("ended" in one or "parsed" in one for one in samples)


def test_choices_of_lm_eval_cannot_be_cut_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = {f"gen_args_{n}": {"arg_0": "q", "arg_1": f" {n}"} for n in range(2)}
    scored = {"arguments": requests, "resps": [[[-1.0, "False"]], [[-2.0, "False"]]]}
    some = [{**line, **scored, "filtered_resps": [[-1.0, "False"]]} for line in lines(0, 1, 2)]
    out = with_output_type(lm_eval_output(tmp_path / "out", {"sums": some}), "multiple_choice")
    samples, _ = imported_samples(capsys, out)
    assert [one["ended"] for one in samples] == ["stop"] * 3
    assert not any("parsed" in one for one in samples)


def log_of(folder: Path, reasons: list[str]) -> Path:
    samples = [inspect_sample(n, "text", "C") for n in range(len(reasons))]
    for sample, reason in zip(samples, reasons, strict=True):
        sample["output"]["choices"][0]["stop_reason"] = reason
    folder.mkdir()
    (folder / "log.json").write_text(json.dumps(inspect_log(samples)))
    return folder


def test_answers_of_inspect_ended_as_its_log_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = ["stop", "max_tokens", "model_length", "content_filter"]
    samples, metrics = imported_samples(capsys, log_of(tmp_path / "logs", reasons))
    assert [one["ended"] for one in samples] == ["stop", "length", "length", "refused"]
    assert metrics["ended_length"] == 0.5


def test_answers_of_inspect_that_ended_for_an_unknown_reason_have_no_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples, metrics = imported_samples(capsys, log_of(tmp_path / "logs", ["stop", "unknown"]))
    assert not any("ended" in one for one in samples)
    assert not any(name.startswith("ended") for name in metrics)
