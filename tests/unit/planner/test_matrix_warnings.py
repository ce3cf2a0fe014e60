"""What a matrix asks for without effect."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.domain.cell import Cell, Config
from benchfleet.planner.matrix_warnings import matrix_warnings
from benchfleet.testing.sample_cells import sample_cell

WARNING = (
    "warning: no benchmark of config tuned reads its settings, so they change no score; only "
    "scripts get them"
)


def cell(benchmark: str, **settings: int) -> Cell:
    declared = sample_cell(benchmark=benchmark)
    return replace(declared, config=Config(name="tuned", settings=settings))


def test_settings_that_no_benchmark_reads_are_warned_of_once() -> None:
    assert list(matrix_warnings([cell("recall", size=8), cell("mock_benchmark", size=8)])) == [
        WARNING
    ]


def test_settings_that_a_script_reads_are_not() -> None:
    assert list(matrix_warnings([cell("recall", size=8), cell("command", size=8)])) == []


def test_a_config_without_settings_has_nothing_to_read() -> None:
    assert list(matrix_warnings([cell("recall")])) == []


def test_answers_that_own_code_is_not_asked_for_are_warned_of() -> None:
    cells = [sample_cell(benchmark=name) for name in ("recall", "python", "command")]
    cells = [replace(one, workload=replace(one.workload, samples_per_question=4)) for one in cells]
    assert list(matrix_warnings(cells)) == [
        f"warning: {name} asks by itself: samples_per_question changes nothing; let its code "
        "ask each question so often"
        for name in ("python", "command")
    ]
