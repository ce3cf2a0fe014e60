"""Which cell is meant, and what it has that an earlier one had not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.domain.cell import Cell
from benchfleet.errors import CampaignError
from benchfleet.planner.explain import (
    ABSENT,
    Difference,
    Named,
    differences,
    earlier,
    find,
    subject,
)
from benchfleet.testing.sample_cells import sample_cell
from records import record_of


def _named(cell: Cell, *, marked: bool = False) -> Named:
    return Named(cell=cell, path=cell.path(marked=marked))


def test_differences_are_listed_key_by_key_from_old_to_new() -> None:
    old = {"a": {"kept": 1, "gone": 2, "other": [1, [2, 3]]}, "b": "x", "c": {}}
    new = {"a": {"kept": 1, "came": None, "other": [1, [2, 4], 5]}, "b": "x", "c": {"d": {}}}
    assert differences(old, new) == [
        Difference(key="a.came", old=ABSENT, new=None),
        Difference(key="a.other[1][1]", old=3, new=4),
        Difference(key="a.other[2]", old=ABSENT, new=5),
        Difference(key="a.gone", old=2, new=ABSENT),
        Difference(key="c.d", old=ABSENT, new={}),
    ]


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, 0.0), (0, False), ("1", 1), ({}, [])])
def test_values_that_python_calls_equal_are_two_where_fingerprints_are(
    old: object, new: object
) -> None:
    assert differences({"a": old}, {"a": new}) == [Difference(key="a", old=old, new=new)]


def test_equal_identities_do_not_differ() -> None:
    identity = sample_cell(config="sink").identity()
    assert differences(identity, identity) == []


def test_cells_that_differ_always_have_a_difference_to_tell() -> None:
    cell = sample_cell()
    for other in (
        sample_cell(version="2"),
        sample_cell(digest="other"),
        sample_cell(repeat=1),
        sample_cell(limit=3),
        replace(cell, model=replace(cell.model, model_kwargs={"a": [True]})),
    ):
        assert len(differences(cell.identity(), other.identity())) == 1


def test_what_has_a_version_is_called_by_its_name() -> None:
    cell = sample_cell(config="sink")
    assert subject("model.adapter_version", cell) == "adapter mock: version"
    assert subject("config.attention[0][2]", cell) == "attention config sink: version"
    assert subject("workload.version", cell) == "benchmark benchmark-0: version"
    assert subject("config.attention[0][1].size", cell) == "config.attention[0][1].size:"


def test_earlier_cells_are_those_of_the_same_name_latest_first() -> None:
    first, second, third = (sample_cell(version=version) for version in "123")
    records = [record_of(cell) for cell in (first, sample_cell(1), second, third)]
    assert [r.fingerprint for r in earlier(third, records)] == [
        second.fingerprint,
        first.fingerprint,
    ]
    assert earlier(sample_cell(2), records) == []


def test_a_cell_is_found_by_id_path_and_beginning_of_its_fingerprint() -> None:
    old, new, other = sample_cell(), sample_cell(version="2"), sample_cell(1)
    named, records = [_named(new, marked=True), _named(other)], [record_of(old)]
    assert find(new.id, named, records).cell == new
    assert find(new.path(marked=True), named, records).cell == new
    assert find(f"{other.id}/", named, records).cell == other
    assert find(other.fingerprint[:6].upper(), named, records).cell == other
    assert find(old.fingerprint, named, records).cell == old


def test_an_unknown_cell_is_refused_with_the_near_ones() -> None:
    with pytest.raises(CampaignError, match=r"--explain tiny/dense/benchmark-8 .*; did you mean"):
        find("tiny/dense/benchmark-8", [_named(sample_cell(3))], [])
    with pytest.raises(CampaignError, match=r"did you mean tiny/dense/benchmark-3\?"):
        find("dense", [_named(sample_cell(3))], [])
    with pytest.raises(
        CampaignError, match=r"no such cell; list all cells: benchfleet plan CAMPAIGN"
    ):
        find("zzzz", [_named(sample_cell(3))], [])


def test_a_beginning_that_two_fingerprints_share_is_refused() -> None:
    cells: dict[str, Cell] = {}
    for number in range(10_000):
        cell = sample_cell(number)
        twin = cells.setdefault(cell.fingerprint[:4], cell)
        if twin != cell:
            break
    with pytest.raises(CampaignError, match="2 cells begin so; write more of the fingerprint"):
        find(cell.fingerprint[:4], [_named(cell), _named(twin)], [])
