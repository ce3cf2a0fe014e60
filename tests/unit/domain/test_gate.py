"""What a gate's expression may say, and what comes of it."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.domain.gate import CellReport, GateResult, check_gate, evaluate_gate
from benchfleet.domain.sample_end import with_defaults


def cell(
    config: str, *, benchmark: str = "recall", success: bool = True, **values: float
) -> CellReport:
    axes = {
        "models": "tiny",
        "configs": config,
        "benchmarks": benchmark,
        "subsets": "",
        "repeats": "0",
    }
    return CellReport(cell=f"tiny/{config}/{benchmark}", axes=axes, success=success, values=values)


CELLS = [
    cell("dense", accuracy=0.95, passed=True),
    cell("top", accuracy=0.9, passed=True),
    cell("window", accuracy=0.5, passed=False),
]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("min(accuracy) >= 0.5", True),
        ("min(accuracy) > 0.5", False),
        ("accuracy >= 0.5", True),
        ("accuracy >= 0.9", False),
        ("passed == true", False),
        ("passed", False),
        ("any(passed) and not all(passed)", True),
        ("complete == 1.0", True),
        ("completeness >= 0.95 and mean(accuracy) > 0.7", True),
        ("mean(accuracy) > 0.9 or max(accuracy) < 3", True),
        ('mean(accuracy, configs="dense") - mean(accuracy, configs="top") <= 0.051', True),
        ('each(accuracy, configs="dense,top") >= 0.9', True),
        ('each(accuracy, configs="!window") >= 0.9', True),
        ("0.4 < median(accuracy) <= 0.9", True),
        ("0.4 < accuracy < 0.95", False),
        ("count(accuracy) == 3 and sum(accuracy) / 3 < 0.8", True),
        ("all(accuracy + 0.5 >= passed)", True),
        ("not accuracy < 0.2", True),
        ("-min(accuracy) <= -0.5", True),
        ("any(accuracy > 0.9) and not all(accuracy > 0.9)", True),
        ("any(accuracy > 0.95)", False),
        ("mean(accuracy > 0.8) > 0.6 and count(each(passed, configs='top')) == 1", True),
        ("any(passed) == true and all(passed) == false", True),
        ("(accuracy >= 0.9) == passed", True),
        ("passed >= 0 and mean(passed) > 0.6", True),
    ],
)
def test_a_condition_holds_or_not(text: str, holds: bool) -> None:
    assert check_gate(text) == ""
    assert evaluate_gate(text, CELLS).holds is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("max(ended_length) <= 0.05", True),
        ("max(ended_length) <= 0.01", False),
        ("ended_unparsed == 0 and ended_refused == 0", True),
        ("min(ended_stop) >= 0.96", True),
        ("min(score_stop) > min(overall_score)", True),
        ("max(same_answer) < 0.9", False),
    ],
)
def test_how_answers_ended_can_open_a_gate(text: str, holds: bool) -> None:
    """Shares that did not occur are 0, as in the ledger's gates."""
    same = {"overall_score": 0.8, "same_answer": 0.95}
    cut = {"overall_score": 0.7, "ended_length": 0.04, "score_stop": 0.72}
    shares = map(with_defaults, (same, cut))
    cells = [replace(one, values=v) for one, v in zip(CELLS[:2], shares, strict=True)]
    assert check_gate(text) == ""
    assert evaluate_gate(text, cells).holds is holds


def test_the_numbers_behind_an_answer_are_reported() -> None:
    output = evaluate_gate('min(accuracy) >= 0.9 and mean(accuracy, configs="dense") > 0', CELLS)
    assert [str(number) for number in output.numbers] == [
        "min(accuracy) = 0.5 (of 3 cells: tiny/window/recall)",
        "mean(accuracy, configs='dense') = 0.95 (of 1 cell)",
    ]
    output = evaluate_gate("accuracy >= 0.9", CELLS)
    assert str(output.numbers[-1]) == "accuracy >= 0.9 = false (of 3 cells: tiny/window/recall)"
    assert "tiny/top/recall 0.9" in str(output.numbers[0])


def test_a_gate_asks_for_every_cell_unless_it_speaks_of_completeness() -> None:
    cells = [*CELLS, cell("broken", success=False)]
    output = evaluate_gate("max(accuracy) > 0.9", cells)
    assert not output.holds
    assert output.why.startswith("1 of 4 cells did not succeed (tiny/broken/recall)")
    assert evaluate_gate("max(accuracy) > 0.9 and completeness >= 0.75", cells).holds
    assert not evaluate_gate("complete == 1.0", cells).holds


def test_what_is_not_there_keeps_a_gate_closed_and_is_named() -> None:
    output = evaluate_gate("min(acuracy) > 0", CELLS)
    assert output == GateResult(
        holds=False, why="no cell reported 'acuracy'; did you mean 'accuracy'?"
    )
    mixed = [*CELLS, cell("dense", benchmark="P1", loss=2.0)]
    assert (
        "1 of 4 cells reported no 'accuracy' (tiny/dense/P1)"
        in evaluate_gate("accuracy > 0", mixed).why
    )
    assert evaluate_gate('each(accuracy, benchmarks="recall") > 0', mixed).holds
    assert "matches no cell" in evaluate_gate('mean(accuracy, configs="nope") > 0', CELLS).why
    assert "division by zero" in evaluate_gate("1 / (min(accuracy) - 0.5) > 0", CELLS).why
    assert "inf + inf" in evaluate_gate("sum((accuracy - 0.9) * 1e308 * 1e308) > 0", CELLS).why


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("min(accuracy", "cannot be read; write a condition such as"),
        ("", "cannot be read"),
        ("min(accuracy)", "'min(accuracy)' is not a condition; compare it"),
        ("min(accuracy) and passed", "'min(accuracy)' is not a condition"),
        ("completeness", "is not a condition"),
        ("accuracy - 1", "is not a condition"),
        ("minimum(accuracy) > 1", "unknown function 'minimum'; did you mean 'min'"),
        ("min(accuracy, loss) > 1", "min takes exactly one metric"),
        ("min(0.5) > 0", "min takes exactly one metric"),
        ('min(accuracy, config="dense") > 1', "unknown axis 'config'; did you mean 'configs'?"),
        ("min(accuracy, configs=3) > 1", "configs takes a name or glob in quotes"),
        ("accuracy ** 9 > 1", "'accuracy ** 9' is not allowed here; use <"),
        ("__import__('os').system('true') == 0", "is not allowed here"),
        ("accuracy.real > 1", "is not allowed here"),
        ("(lambda: 1)() > 0", "is not allowed here"),
        ("accuracy in 3", "is not allowed here; compare by <"),
        ("accuracy > 1e999", "is not a finite number"),
        ("accuracy > 'x'", "compares text with a number"),
        ("min(accuracy, **configs) > 1", "unknown axis '**'; there are models"),
        ("passed + true > 1", "true is truth"),
        (
            "any(accuracy, benchmarks='E0') > 0.9",
            "\"any(accuracy, benchmarks='E0') > 0.9\" takes true or false for a number; "
            "write \"any(accuracy > 0.9, benchmarks='E0')\"",
        ),
        ("all(accuracy) >= 0.9", "write 'all(accuracy >= 0.9)'"),
        ("0.5 <= all(accuracy) < 0.9", "write 'all(0.5 <= accuracy < 0.9)'"),
        ("any(passed) == 1", "write 'any(passed == 1)'"),
        ("any(accuracy > 0.5) > 0", "write 'any(accuracy > 0.5)' alone, or with not before it"),
        ("any(accuracy) > any(passed)", "write 'any(accuracy)' alone, or with not before it"),
        ("(accuracy > 0.5) > 0.9", "write 'accuracy > 0.5' alone, or with not before it"),
        ("each(accuracy > 0.5) > 0.9", "write 'each(accuracy > 0.5)' alone"),
        ("(not passed) < 1", "write 'not passed' alone, or with not before it"),
        ("min(passed) == true", "write 'min(passed) == 1'"),
        ("complete == true", "write 'complete == 1'"),
        ("accuracy > false", "write 'accuracy > 0'"),
        ("true < false", "write 'true' alone, or with not before it"),
        ("a > 1" + " and a > 1" * 100, "too long"),
        ("(" * 240 + "a" + ")" * 240 + " > 1", "cannot be read"),
        ("-" * 400 + "a > 1", "too long"),
    ],
)
def test_what_a_gate_cannot_say_is_refused(text: str, problem: str) -> None:
    assert problem in check_gate(text)
    with pytest.raises(ValueError, match=re.escape(check_gate(text))):
        evaluate_gate(text, CELLS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "any(accuracy)",
            "accuracy is a number (0.95 in tiny/dense/recall), not true or false; "
            "compare it, as in any(accuracy >= 0.9)",
        ),
        ("all(accuracy - 0.5)", "compare it, as in all(accuracy - 0.5 >= 0.9)"),
        (
            'any(accuracy, configs="window")',
            "(0.5 in tiny/window/recall), not true or false; "
            "compare it, as in any(accuracy >= 0.9, configs='window')",
        ),
        ("accuracy", "compare it, as in accuracy >= 0.9"),
        ("each(accuracy)", "compare it, as in each(accuracy) >= 0.9"),
        ("accuracy and passed", "compare it, as in accuracy >= 0.9"),
        ("not any(accuracy)", "compare it, as in any(accuracy >= 0.9)"),
        ("not (not accuracy)", "compare it, as in accuracy >= 0.9"),
        ("accuracy != false", "accuracy != false: 0.95 is a number, not true or false"),
        ("accuracy != passed", "accuracy != passed: 0.95 is a number, not true or false"),
    ],
)
def test_a_number_is_no_truth(text: str, why: str) -> None:
    assert check_gate(text) == ""
    result = evaluate_gate(text, CELLS)
    assert not result.holds
    assert why in result.why


@pytest.mark.parametrize("one", [1, 1.0, True])
def test_a_script_may_report_a_truth_as_1_or_0(one: float) -> None:
    cells = [cell("dense", passed=one), cell("top", passed=one - 1)]
    assert evaluate_gate("any(passed) and not all(passed) and any(passed == true)", cells).holds
    assert evaluate_gate("passed", cells[:1]).holds


def test_a_number_is_equal_to_one_that_differs_by_rounding() -> None:
    cells = [cell("dense", accuracy=value) for value in (0.8, 0.81, 0.6, 0.61)]
    cells = [replace(one, cell=f"{at}") for at, one in enumerate(cells)]
    assert math.fsum((0.8, 0.81, 0.6, 0.61)) / 4 != 0.705  # what this is about
    assert evaluate_gate("mean(accuracy) == 0.705", cells).holds
    assert not evaluate_gate("mean(accuracy) != 0.705", cells).holds
    assert not evaluate_gate("mean(accuracy) == 0.7050001", cells).holds
    assert evaluate_gate("mean(accuracy) != 0.7050001", cells).holds
    assert "too large" in evaluate_gate(f"accuracy == {10**400}", cells).why


@given(st.text(alphabet="ab()<>=+-*/.,0123456789 \"'andormiex[]{}:_", max_size=60))
def test_any_text_is_refused_or_answered(text: str) -> None:
    if not check_gate(text):
        assert isinstance(evaluate_gate(text, CELLS).holds, bool)


def test_a_phase_without_cells_is_complete() -> None:
    assert evaluate_gate("completeness >= 1", []).holds
    assert evaluate_gate("count(accuracy) == 0", []).holds
