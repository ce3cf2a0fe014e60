"""What a judge asks of stored answers, and what its records keep of them."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from benchfleet.benchmarks.judge import Judge
from benchfleet.benchmarks.records import Record
from benchfleet.errors import CellFailure
from benchfleet.results.summary import summarise

stats = pytest.importorskip("scipy.stats")

VERDICTS = {"q1": [5, 5, 4], "q2": [1, 1, 2], "q3": [3, 3, 4]}


def stored(file: Path, **more: Any) -> str:
    """Three answers to each of three questions, as JSON lines."""
    lines = [
        {"index": 3 * number + draw, "id": f"{name}~{draw}" if draw else name, "question": name}
        | {"draw": draw, "context": f"of {name}", "predicted_answer": "x", "columns": {}, **more}
        for number, name in enumerate(VERDICTS)
        for draw in range(3)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


def records(judge: Judge, verdicts: list[str]) -> list[Record]:
    """The judge's records with these verdicts, as `SampleBenchmark.run` makes them."""
    return [
        Record(
            index=sample.index,
            id=sample.id,
            columns=sample.columns,
            predicted_answer=f"VERDICT: {verdict}",
            question=sample.question,
            context=sample.context,
        )
        for sample, verdict in zip(judge.samples(None, 0), verdicts, strict=True)
    ]


def summary(judge: Judge, verdicts: list[str]) -> dict[str, float]:
    made = records(judge, verdicts)
    score = judge.score(made)
    plain = {"overall": score.overall, "per_sample": score.per_sample}
    return summarise(plain, [one.to_dict() for one in made])


def test_verdicts_about_one_question_are_not_independent(tmp_path: Path) -> None:
    answers = stored(tmp_path / "answers.jsonl")
    judge = Judge({"rubric": "Grade {response}", "scale": [1, 5], "answers": answers})
    numbers = summary(judge, [str(one) for some in VERDICTS.values() for one in some])
    assert numbers["stderr"] == pytest.approx(stats.sem([fmean(v) for v in VERDICTS.values()]))
    assert {one.context for one in judge.samples(None, 0)} == {"of q1", "of q2", "of q3"}
    assert not [name for name in numbers if "_at_" in name]


def test_win_rates_of_one_question_are_not_independent(tmp_path: Path) -> None:
    answers, baseline = stored(tmp_path / "a.jsonl"), stored(tmp_path / "b.jsonl")
    judge = Judge({"rubric": "{response_a}{response_b}", "answers": answers, "baseline": baseline})
    wins = {"q1": ["AB", "AB", "AA"], "q2": ["BA", "BA", "BA"], "q3": ["AB", "BA", "AA"]}
    numbers = summary(judge, [one for some in wins.values() for pair in some for one in pair])
    assert numbers["overall_score"] == pytest.approx(fmean([2.5 / 3, 0, 1.5 / 3]))
    assert numbers["stderr"] == pytest.approx(stats.sem([2.5 / 3, 0, 1.5 / 3]))


def test_a_judge_without_any_verdict_fails_with_what_to_change(tmp_path: Path) -> None:
    answers = stored(tmp_path / "answers.jsonl")
    judge = Judge({"rubric": "Grade {response}", "scale": [1, 5], "answers": answers})
    with pytest.raises(CellFailure, match="on a line of its own at the end") as caught:
        judge.score(records(judge, ["tie"] * 9))
    assert "Change the rubric, the judge's 'generation'" in str(caught.value)
    assert (caught.value.stage, caught.value.kind) == ("collect", "user_error")
