"""Cells of equal names that a ledger knows in several versions."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.domain.cell import Cell
from benchfleet.domain.versions import mark_versions
from benchfleet.testing import sample_cell


def with_setting(cell: Cell, value: int) -> Cell:
    return replace(cell, config=replace(cell.config, settings={"window": value}))


def test_one_version_keeps_its_name() -> None:
    cells = [with_setting(sample_cell(number), 5) for number in range(3)]
    assert [cell.config.name for cell in mark_versions(cells)] == ["dense"] * 3


def test_a_later_version_of_a_config_gets_a_mark_and_stays_the_same_cell() -> None:
    cells = [with_setting(sample_cell(number), value) for value in (5, 7) for number in (0, 1)]
    marked = mark_versions(cells)
    assert marked == cells
    names = [cell.config.name for cell in marked]
    assert names[:2] == ["dense", "dense"]
    assert names[2] == names[3]
    assert names[2].startswith("dense@")


def test_a_config_has_one_name_with_every_model() -> None:
    cells = [with_setting(sample_cell(model=m), value) for value in (5, 7) for m in ("a", "b")]
    names = [cell.config.name for cell in mark_versions(cells)]
    assert names[0] == names[1]
    assert names[2] == names[3] != names[0]


def test_a_model_of_other_weights_gets_a_mark() -> None:
    first, second = mark_versions([sample_cell(digest=digest) for digest in ("a", "b")])
    assert (first.model.name, first.config.name) == ("tiny", "dense")
    assert second.model.name.startswith("tiny@")
    assert second.config.name == "dense"


def test_a_config_that_differs_by_benchmark_is_one() -> None:
    cells = [with_setting(sample_cell(0), 5), with_setting(sample_cell(1), 7)]
    assert mark_versions(cells) == cells
    assert {cell.config.name for cell in mark_versions(cells)} == {"dense"}


def test_another_version_of_the_benchmark_is_none_of_the_config() -> None:
    cells = [sample_cell(version=version) for version in ("1", "2")]
    assert {cell.config.name for cell in mark_versions(cells)} == {"dense"}
