from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchfleet.benchmarks.asking import context_digest
from benchfleet.benchmarks.bootstrap import HIGH, LOW, RESAMPLES, STDERR
from benchfleet.benchmarks.reported_scores import find_report, plain, read_report
from benchfleet.domain.averages import standard_error
from benchfleet.errors import CellFailure
from benchfleet.results.summary import summarise


def _overall(value: Any, metric: str | None = None) -> float:
    return read_report(value, metric=metric).score.overall


@pytest.mark.parametrize(
    ("value", "overall"),
    [
        (0.25, 0.25),
        ({"seconds": 9, "score": 3, "accuracy": 2, "overall_score": 1}, 1),
        ({"seconds": 9, "score": 3, "accuracy": 2}, 2),
        ({"seconds": 9, "score": 3}, 3),
        ({"model": "m", "passed": True, "f1": 0.5, "seconds": 9}, 0.5),
        ({"samples": [{"score": 1}, {"score": False}]}, 0.5),
        ({"name": "p1", "passed": True}, 1),
        ({"passed": False}, 0),
    ],
)
def test_the_headline_is_the_best_known_name_then_the_first_number(
    value: float | Mapping[str, Any], overall: float
) -> None:
    assert _overall(value) == overall


def test_a_sample_without_a_score_takes_no_other_s() -> None:
    samples = [{"score": 1, "finish": "length"}, {"id": "q2"}, {"score": 0}]
    report = read_report({"samples": samples}, metric=None)
    assert (report.score.overall, report.score.per_sample) == (0.5, [1, 0, 0])
    assert report.score.unscored == [1]
    assert [record.finish for record in report.records] == ["length", "", ""]
    report = read_report({"accuracy": 1, "samples": [{"id": "q"}]}, metric=None)
    assert (report.score.per_sample, report.score.unscored) == ((), ())


def test_a_value_that_is_no_json_is_named_with_its_type() -> None:
    with pytest.raises(CellFailure, match="of type object"):
        plain({"accuracy": object()})


def test_a_metric_names_the_headline_by_key_or_by_dots() -> None:
    value = {"accuracy": 0.1, "a.b": 0.2, "a": {"b": 0.3, "c": {"d": 0.4}}}
    assert _overall(value, "a.b") == 0.2
    assert _overall(value, "a.c.d") == 0.4


@pytest.mark.parametrize(
    ("text", "metric", "output"),
    [
        ('{"accuracy": NaN, "f1": 0.5}', None, "accuracy is nan"),
        ('{"loss": Infinity, "f1": 0.5}', None, "loss is inf"),
        ('{"accuracy": null}', None, "accuracy is None"),
        ('{"accuracy": "high"}', None, "accuracy is 'high'"),
        ('{"score": 1' + "0" * 400 + "}", None, "not a finite number"),
        ('{"f1": 0.5, "name": "x"}', "f2", "no metric 'f2' was reported; there are f1"),
        ('{"a": {"b": 1}}', "a.b.c", "no metric 'a.b.c'"),
        ('{"name": "x"}', None, "no number among name"),
        ("{}", None, "no number among nothing"),
        ("[1, 2]", None, r"the result is \[1, 2\]"),
        ("null", None, "reported None"),
        ("0.5", "f1", "a mapping of names to numbers is wanted"),
        ('{"score": 1, "samples": {"a": 1}}', None, "'samples' must be a list"),
        ('{"score": 1, "samples": [1]}', None, "'samples' must be a list"),
        ('{"samples": [{"score": NaN}]}', None, r"samples\[0\].score is nan"),
        ('{"score": 1, "samples": [{"seconds": "x"}]}', None, r"samples\[0\].seconds is 'x'"),
    ],
)
def test_what_has_no_finite_headline_is_a_bad_result(
    text: str, metric: str | None, output: str
) -> None:
    with pytest.raises(CellFailure, match=output) as caught:
        _overall(json.loads(text), metric)
    assert (caught.value.stage, caught.value.kind) == ("collect", "bad_result")


def test_samples_become_records_with_their_scores() -> None:
    samples = [
        {"id": 7, "score": 1, "question": "q", "predicted_answer": "a", "prompt_tokens": 3},
        {"score": 0.5, "predicted_answer": {"x": float("nan")}, "seconds": 2, "noise": [1e999]},
    ]
    report = read_report({"accuracy": 0.75, "samples": samples}, metric=None)
    first, second = report.records
    assert (first.index, first.id, first.columns) == (0, "7", {"question": "q"})
    assert (first.predicted_answer, first.prompt_tokens) == ("a", 3)
    assert (second.index, second.id, second.columns) == (1, "1", {"noise": [None]})
    assert (second.predicted_answer, second.seconds) == ('{"x": null}', 2.0)
    assert report.score.per_sample == [1.0, 0.5]


def test_a_sample_without_a_score_leaves_the_headline_alone() -> None:
    report = read_report(
        {"f1": 0.5, "samples": [{"id": "a"}, {"id": "b", "score": 1}]}, metric=None
    )
    assert (report.score.overall, report.score.unscored) == (0.5, [0])
    assert [record.id for record in report.records] == ["a", "b"]


def test_a_count_of_samples_is_a_number_like_others() -> None:
    report = read_report({"accuracy": 0.5, "samples": 40}, metric=None)
    assert report.records == []
    assert report.score.summary["samples"] == 40


def test_the_earlier_tools_metrics_are_understood() -> None:
    value = {
        "overall_score": 0.5,
        "task_scores": {"qasper": 0.25, "other": {"f1": 1}, "lost": float("nan")},
        "summary": {"total": 4, "note": "fine", "deep": {}},
        "long": "x" * 1000,
    }
    score = read_report(value, metric=None).score
    assert score.tasks == {"qasper": 0.25}
    assert score.summary == {"note": "fine", "overall_score": 0.5, "total": 4}


def test_numbers_of_other_libraries_become_plain_ones() -> None:
    class Single:
        def item(self) -> float:
            return 0.5

    assert plain({"accuracy": Single(), "pair": (1, 2)}) == {"accuracy": 0.5, "pair": [1, 2]}
    with pytest.raises(CellFailure, match="not JSON"):
        plain({"accuracy": object()})


def _f1(samples: Sequence[Mapping[str, Any]]) -> float:
    both: int = sum(one["found"] and one["true"] for one in samples)
    all_: int = sum(one["found"] + one["true"] for one in samples)
    return 2 * both / (all_ or 1)


SAMPLES = [{"id": n, "found": n % 3 == 0, "true": n % 2 == 0} for n in range(30)]


def test_an_aggregate_makes_the_headline_and_its_interval_is_that_of_scipy() -> None:
    report = read_report({"f1": 7, "samples": SAMPLES}, metric=None, aggregate=_f1)
    assert report.score.overall == _f1(SAMPLES)
    assert report.score.summary["f1"] == 7
    expected = stats.bootstrap(
        (range(30),),
        lambda chosen: _f1([SAMPLES[n] for n in chosen]),
        n_resamples=RESAMPLES,
        method="BCa",
        vectorized=False,
        rng=0,
    )
    interval = expected.confidence_interval
    numbers = [float(one) for one in (expected.standard_error, interval.low, interval.high)]
    assert [report.score.summary[name] for name in (STDERR, LOW, HIGH)] == pytest.approx(numbers)


def test_an_aggregate_that_is_the_mean_needs_no_bootstrap() -> None:
    samples = [{"id": n, "score": n % 2} for n in range(9)]
    report = read_report(
        {"samples": samples}, metric=None, aggregate=lambda rows: fmean(r["score"] for r in rows)
    )
    assert report.score.overall == pytest.approx(4 / 9)
    assert STDERR not in report.score.summary


def test_samples_with_one_id_are_drawn_together() -> None:
    """Each question twice, with the same answer: no more certain than once."""
    once = read_report({"samples": SAMPLES}, metric=None, aggregate=_f1)
    twice = read_report({"samples": SAMPLES * 2}, metric=None, aggregate=_f1)
    assert twice.score.summary[STDERR] == pytest.approx(once.score.summary[STDERR])


def test_samples_of_one_context_share_a_digest_and_keep_their_column() -> None:
    contexts = ["a document", "a document", 0, ["a", "b"], "", None]
    samples = [{"score": n % 2, "context": one} for n, one in enumerate(contexts)]
    records = read_report({"samples": [*samples, {"score": 1}]}, metric=None).records
    digests = [record.context for record in records]
    assert digests[0] == digests[1] == context_digest("a document")
    assert len({*digests[:4]}) == 3
    assert digests[4:] == ["", "", ""]
    assert [record.columns.get("context") for record in records] == [*contexts, None]


def test_samples_of_one_context_are_one_cluster_of_the_standard_error() -> None:
    rows = [{"id": str(n), "score": n // 4 % 2, "context": f"g{n // 4}"} for n in range(16)]
    report = read_report({"samples": rows}, metric=None)
    records = [record.to_dict() for record in report.records]
    score = {"overall": report.score.overall, "per_sample": report.score.per_sample}
    assert summarise(score, records)["stderr"] == pytest.approx(standard_error([0, 1, 0, 1]))


def test_samples_of_one_context_are_drawn_together_by_the_bootstrap() -> None:
    values = [0.1, 0.5, 0.2, 0.9, 0.7, 0.3]
    rows = [{"value": v, "id": str(n), "context": f"g{n // 2}"} for n, v in enumerate(values)]
    same = [{**row, "id": row["context"]} for row in rows]

    def squared(samples: Sequence[Mapping[str, Any]]) -> float:
        return fmean(s["value"] for s in samples) ** 2

    summaries = [
        read_report({"samples": some}, metric=None, aggregate=squared).score.summary
        for some in (rows, same)
    ]
    assert summaries[0][STDERR] == summaries[1][STDERR]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.5, "needs 'samples'"),
        ({"score": 1}, "needs 'samples'"),
        ({"samples": []}, "needs 'samples'"),
        ({"samples": [{"id": "a", "x": 1}]}, "the result of 'aggregate' is nan"),
    ],
)
def test_an_aggregate_without_samples_or_a_number_is_a_bad_result(
    value: float | Mapping[str, Any], message: str
) -> None:
    with pytest.raises(CellFailure, match=message):
        read_report(value, metric=None, aggregate=lambda rows: math.nan)


async def _score() -> float:
    return 1.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: _score(), r"what was returned is a coroutine: await it"),
        (lambda: {"accuracy": _score()}, r"accuracy is a coroutine: await it"),
        (lambda: {"samples": ({"id": n} for n in range(2))}, "samples is a generator: use a list"),
        (lambda: {"parts": {"easy": np.ones(3)}}, r"parts\.easy is an array .*use \.tolist\(\)"),
        (lambda: {"samples": [{}, {"score": np.ones(2)}]}, r"samples\[1\]\.score is an array"),
    ],
)
def test_what_is_no_json_is_named_by_its_key_with_what_to_write(
    value: Callable[[], Any], message: str
) -> None:
    with pytest.raises(CellFailure, match=message):
        plain(value())


def test_a_printed_report_may_hold_any_mark_that_ends_a_line_elsewhere(tmp_path: Path) -> None:
    printed = json.dumps({"score": 0.5, "note": "one\u2028two\u0085"}, ensure_ascii=False)
    report = find_report(tmp_path / "result", tmp_path, f"begin\n{printed}\r\nend\n".encode())
    assert report == {"score": 0.5, "note": "one\u2028two\u0085"}
