"""A result of another harness is imported only if it is whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchfleet.compat.imports.inspect_logs import read_inspect
from benchfleet.compat.imports.read import read_results
from benchfleet.compat.imports.result import UnreadableResult

from .conftest import imported, sums_campaign
from .test_inspect_imports import inspect_log, inspect_sample

DATE = "2026-01-01T00-00-00.000000"
FILTERS = ("strict", "loose")


def lm_eval_output(
    folder: Path,
    samples: Mapping[str, Sequence[dict[str, Any]] | None],
    *,
    effective: int = 3,
    value: float = 0.5,
) -> Path:
    """Results of tasks of three documents each, with these samples; None for no file."""
    folder.mkdir()
    counts = {"original": 3, "effective": effective}
    content = {
        "results": {task: {"acc,strict": value, "acc_stderr,strict": 0.1} for task in samples},
        "n-samples": dict.fromkeys(samples, counts),
        "config": {"model": "hf", "model_args": "pretrained=tiny"},
        "lm_eval_version": "0.4.13",
    }
    (folder / f"results_{DATE}.json").write_text(json.dumps(content))
    for task, lines in samples.items():
        if lines is not None:
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            (folder / f"samples_{task}_{DATE}.jsonl").write_text(text, "utf-8")
    return folder


def lines(*numbers: int, filters: Sequence[str] = FILTERS, text: str = "") -> list[dict[str, Any]]:
    return [
        {
            "doc_id": number,
            "doc": {"q": f"{number}{text}"},
            "target": "1",
            "arguments": {"gen_args_0": {"arg_0": f"{number}{text}", "arg_1": {}}},
            "resps": [["1"]],
            "filter": one,
            "acc": float(number % 2),
        }
        for one in filters
        for number in numbers
    ]


def without_value(number: int) -> dict[str, Any]:
    (line,) = lines(number, filters=["strict"])
    return {name: value for name, value in line.items() if name != "acc"}


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        (lines(0, 2), "has 2 of 3 samples"),
        ([], "has 0 of 3 samples"),
        ([*lines(0, 1, 2, filters=["strict"]), *lines(0, filters=["loose"])], "has 1 of 3"),
        ([{"doc_id": 0}, ["no sample"]], "is not whole"),
    ],
)
def test_results_of_lm_eval_that_lack_samples_are_left_out_by_name(
    samples: list[dict[str, Any]], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = lm_eval_output(tmp_path / "out", {"sums": samples})
    study = sums_campaign(tmp_path)
    code, summary = imported(capsys, study, out)
    (problem,) = summary["left out"]
    assert code == 1
    assert f"samples_sums_{DATE}.jsonl is not whole" in problem
    assert why in problem
    assert not (tmp_path / "benchmark_results").exists()


def test_a_task_that_lacks_samples_takes_no_other_task_with_it(tmp_path: Path) -> None:
    samples = {"a": lines(0), "b": lines(0, 1, 2), "c": [], "d": None}
    results, problems = read_results(lm_eval_output(tmp_path / "out", samples))
    assert [(one.benchmark, len(one.samples)) for one in results] == [("b", 3), ("d", 0)]
    assert ["samples_a" in one or "samples_c" in one for one in problems] == [True, True]


def test_samples_of_documents_without_a_metric_are_no_defect(tmp_path: Path) -> None:
    out = lm_eval_output(tmp_path / "out", {"sums": lines(0, 1, 2)}, effective=2)
    ((one,), problems) = read_results(out)
    assert (problems, len(one.samples), one.answered, one.limit) == ([], 3, 3, None)


def with_metrics(out: Path, *entries: dict[str, Any]) -> Path:
    file = out / f"results_{DATE}.json"
    configs = {"configs": {"sums": {"metric_list": [*entries]}}}
    file.write_text(json.dumps(json.loads(file.read_text()) | configs))
    return out


def test_a_result_of_lm_eval_that_its_samples_contradict_is_left_out_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = lm_eval_output(tmp_path / "out", {"sums": lines(0, 1, 2)}, value=0.9)
    with_metrics(out, {"metric": "acc", "aggregation": "mean"})
    study = sums_campaign(tmp_path)
    code, summary = imported(capsys, study, out)
    why = "acc,strict is 0.9, and the mean of 3 is 0.333"
    problem = f"{out}/results_{DATE}.json contradicts its samples of sums: {why}"
    assert (code, summary["left out"]) == (1, [problem])
    assert not (tmp_path / "benchmark_results").exists()


@pytest.mark.parametrize(
    ("value", "entries", "some"),
    [
        (1 / 3, [{"metric": "acc", "aggregation": "mean"}], lines(0, 1, 2)),
        (0.333, [{"metric": "acc", "aggregation": "mean"}], lines(0, 1, 2)),
        (0.9, [{"metric": "acc", "aggregation": "median"}], lines(0, 1, 2)),
        (0.9, [{"metric": "acc", "aggregation": "def mean(items): ..."}], lines(0, 1, 2)),
        (0.9, [{"metric": "acc"}, {"metric": "other", "aggregation": "mean"}], lines(0, 1, 2)),
        (0.9, [], lines(0, 1, 2)),
        (0.9, [{"metric": "acc", "aggregation": "mean"}], None),
        (
            0.9,
            [{"metric": "acc", "aggregation": "mean"}],
            [*lines(0, 1, filters=["strict"]), without_value(2)],
        ),
    ],
)
def test_a_metric_that_is_no_mean_of_all_samples_is_not_compared_with_them(
    value: float, entries: list[dict[str, Any]], some: list[dict[str, Any]] | None, tmp_path: Path
) -> None:
    out = lm_eval_output(tmp_path / "out", {"sums": some}, value=value)
    ((one,), problems) = read_results(with_metrics(out, *entries))
    assert (problems, one.metrics) == ([], {"acc,strict": value})


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0c"])
def test_a_text_may_hold_any_mark_that_ends_a_line_elsewhere(mark: str, tmp_path: Path) -> None:
    out = lm_eval_output(tmp_path / "out", {"sums": lines(0, 1, 2, text=mark)})
    ((one,), problems) = read_results(out)
    assert problems == []
    assert one.samples[0]["columns"]["q"] == f"0{mark}"


def test_a_metric_that_is_no_number_is_named_with_its_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = sums_campaign(tmp_path)
    out = lm_eval_output(tmp_path / "out", {"sums": lines(0, 1, 2)}, value=float("nan"))
    name = f"results_{DATE}.json (tiny sums)"
    code, summary = imported(capsys, study, out)
    assert (code, summary["left out"]) == (1, [f"the value of acc,strict in {name} is nan"])
    log = inspect_log([inspect_sample(1, "2", "C")])
    log["results"]["scores"][0]["metrics"]["accuracy"]["value"] = float("nan")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "one.json").write_text(json.dumps(log))
    code, summary = imported(capsys, study, logs)
    why = "the value of accuracy in one.json (tiny sums) is nan"
    assert (code, summary["left out"]) == (1, [why])


def whole_log(total: int, **config: Any) -> dict[str, Any]:
    """A log of the samples 1 to 3."""
    log = inspect_log([inspect_sample(n, "2", "C") for n in (1, 2, 3)])
    log["eval"] |= {"config": config, "dataset": {"samples": total}}
    log["results"] |= {"total_samples": 3, "completed_samples": 3}
    return log


def read(folder: Path, log: dict[str, Any]) -> Any:
    file = folder / "one.json"
    file.write_text(json.dumps(log))
    (one,) = read_inspect(file)
    return one


@pytest.mark.parametrize("kept", [0, 2])
@pytest.mark.parametrize("counted", [True, False])
def test_a_log_of_inspect_that_lacks_samples_is_left_out_by_name(
    kept: int, counted: bool, tmp_path: Path
) -> None:
    log = whole_log(3)
    del log["samples"][kept:]
    if not counted:
        del log["results"]["total_samples"]
    with pytest.raises(UnreadableResult, match=rf"one\.json .*has {kept} of 3 samples"):
        read(tmp_path, log)


def test_a_log_of_inspect_that_lacks_a_question_of_all_epochs_is_left_out(tmp_path: Path) -> None:
    log = whole_log(3, epochs=2)
    log["samples"] = [inspect_sample(n, "2", "C", epoch=e) for n in (1, 2) for e in (1, 2)]
    del log["results"]["total_samples"]
    with pytest.raises(UnreadableResult, match="has 4 of 6 samples"):
        read(tmp_path, log)


@pytest.mark.parametrize("config", [{"sample_id": [1, 2, 3]}, {"limit": [4, 7]}])
def test_a_log_of_chosen_samples_is_not_of_the_first_ones(
    config: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UnreadableResult, match=f"has chosen samples .{next(iter(config))}."):
        read(tmp_path, whole_log(9, **config))


@pytest.mark.parametrize(
    ("total", "config", "limit"),
    [
        (3, {}, None),
        (9, {"limit": 3}, 3),
        (9, {"limit": [0, 3]}, 3),
        (3, {"limit": 5}, None),
        (3, {"sample_id": [1, 2, 3]}, None),
    ],
)
def test_a_whole_log_of_inspect_is_read(
    total: int, config: dict[str, Any], limit: int | None, tmp_path: Path
) -> None:
    one = read(tmp_path, whole_log(total, **config))
    assert (one.answered, one.limit) == (3, limit)


def test_a_log_without_samples_by_its_own_setting_is_read(tmp_path: Path) -> None:
    log = whole_log(3, log_samples=False)
    log["samples"] = []
    assert read(tmp_path, log).samples == []
