from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.limits import Limits
from benchfleet.domain.matrix import (
    Include,
    Matrix,
    ModelEntry,
    Rule,
    select_cells,
    with_limit,
)
from benchfleet.domain.resource import Need


def _entry(name: str) -> ModelEntry:
    return ModelEntry(model=Model(name=name, adapter="mock", source=name, digest=name))


MATRIX = Matrix(
    models=(_entry("one"), _entry("two")),
    configs=(Config(name="dense"),),
    workloads=(
        Workload(benchmark="recall", version="1", subset="128"),
        Workload(benchmark="recall", version="1", subset="512"),
        Workload(benchmark="mock_benchmark", version="1"),
    ),
)


def _ids(cells: list[Cell]) -> list[str]:
    return [str(cell.id) for cell in cells]


def test_the_product_comes_model_by_model() -> None:
    assert _ids(MATRIX.expand()) == [
        "one/dense/recall_128",
        "one/dense/recall_512",
        "one/dense/mock_benchmark",
        "two/dense/recall_128",
        "two/dense/recall_512",
        "two/dense/mock_benchmark",
    ]


def test_repeats_are_cells_of_their_own_and_named_in_the_path() -> None:
    cells = replace(MATRIX, repeats=2).expand()
    assert len(cells) == len(set(cells)) == 12
    assert _ids(cells)[:2] == ["one/dense/recall_128/r0", "one/dense/recall_128/r1"]


def test_cells_carry_what_the_campaign_says_beyond_identity() -> None:
    entry = replace(_entry("one"), need=Need(gpus=2), priority=5)
    matrix = replace(MATRIX, models=(entry,), limits=Limits(cell=9.0, tries=1))
    cell = matrix.expand()[0]
    assert (cell.need, cell.priority, cell.limits) == (entry.need, 5, matrix.limits)


def test_a_model_may_have_workloads_of_its_own() -> None:
    own = Workload(benchmark="recall", version="1", subset="128", generation={"temperature": 1})
    matrix = replace(MATRIX, models=(_entry("one"), replace(_entry("two"), workloads=(own,))))
    cells = matrix.expand()
    assert [cell.workload for cell in cells if cell.model.name == "two"] == [own]
    assert [cell.workload for cell in cells if cell.model.name == "one"] == [*MATRIX.workloads]


def test_cells_of_equal_content_are_one() -> None:
    twin = replace(_entry("twin"), model=replace(_entry("one").model, name="twin"))
    cells = replace(MATRIX, models=(_entry("one"), twin)).expand()
    assert len(cells) == 3


def test_excluded_cells_are_left_out_and_included_ones_come_back() -> None:
    matrix = replace(
        MATRIX,
        exclude=(Rule(models=("two",)),),
        include=(Include(rule=Rule(models=("two",), subsets=("512",)), repeats=1),),
    )
    assert _ids(matrix.expand())[3:] == ["two/dense/recall_512"]


def test_an_include_gives_its_cells_more_repeats_under_one_folder() -> None:
    rule = Rule(models=("one",), subsets=("128",))
    matrix = replace(MATRIX, include=(Include(rule=rule, repeats=3),))
    ids = _ids(matrix.expand())
    assert sorted(one for one in ids if one.startswith("one/dense/recall_128")) == [
        "one/dense/recall_128/r0",
        "one/dense/recall_128/r1",
        "one/dense/recall_128/r2",
    ]
    assert len(ids) == 8


@pytest.mark.parametrize("repeats", [(1,), (3, 1), (1, 3)])
def test_includes_never_put_one_cells_folder_into_anothers(repeats: tuple[int, ...]) -> None:
    matrix = replace(
        MATRIX,
        repeats=2,
        exclude=(Rule(repeats=("0",)),),
        include=tuple(Include(rule=Rule(models=("one",)), repeats=count) for count in repeats),
    )
    ids = _ids(matrix.expand())
    assert len(ids) == len(set(ids))
    assert not [one for one in ids for other in ids if other.startswith(f"{one}/")]


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        (Rule(), 12),
        (Rule(models=("one",)), 6),
        (Rule(models=("one",), benchmarks=("recall",)), 4),
        (Rule(subsets=("128", "512")), 8),
        (Rule(subsets=("!512",)), 8),
        (Rule(repeats=("1",)), 6),
        (Rule(configs=("dense",), repeats=("!0",), benchmarks=("mock_*",)), 2),
        (Rule(models=("none",)), 0),
    ],
)
def test_a_rule_matches_where_every_axis_it_speaks_of_agrees(rule: Rule, count: int) -> None:
    cells = replace(MATRIX, repeats=2).expand()
    assert sum(rule.matches(cell) for cell in cells) == count


def test_chosen_cells_match_some_of_only_and_none_of_exclude() -> None:
    cells = MATRIX.expand()
    assert select_cells(cells) == cells
    only = [Rule(models=("one",)), Rule(subsets=("512",))]
    assert _ids(select_cells(cells, only=only, exclude=[Rule(subsets=("128",))])) == [
        "one/dense/recall_512",
        "one/dense/mock_benchmark",
        "two/dense/recall_512",
    ]


def test_a_limit_makes_cells_of_their_own() -> None:
    cells = MATRIX.expand()
    limited = with_limit(cells, 5)
    assert {cell.workload.limit for cell in limited} == {5}
    assert not set(limited) & set(cells)
    assert not set(_ids(limited)) & set(_ids(cells))
