"""The batch size that a slot finds out, and the check of answers in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchfleet.domain.cell import AUTO_BATCH, Cell
from benchfleet.errors import CellFailure
from benchfleet.models.base import Answer, Prompt
from benchfleet.models.mock import MockAdapter
from benchfleet.slot.batch_size import MAX_BATCH, BatchSizes
from benchfleet.testing import sample_cell


class Measured(MockAdapter):
    """Has memory for so many prompts; each batch takes the seconds that `cost` says."""

    batch_sensitive: ClassVar[bool] = True

    def __init__(self, cell: Cell, *, room: int = 1000, cost: Any = lambda size: 1.0) -> None:
        super().__init__(cell.model)
        self._room, self._cost = room, cost
        self.now, self.sizes = 0.0, [0]
        self.neighbours = False  # whether they change an answer

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        self.sizes.append(len(prompts))
        if len(prompts) > self._room:
            raise CellFailure(stage="benchmark", kind="oom", message="full", retryable=True)
        self.now += self._cost(len(prompts))
        suffix = "!" if self.neighbours and len(prompts) > 1 else ""
        return [Answer(text=prompt.text + suffix) for prompt in prompts]


@pytest.fixture
def cell() -> Cell:
    plain = sample_cell()
    return replace(plain, workload=replace(plain.workload, batch_size=AUTO_BATCH, limit=None))


def chosen(cell: Cell, adapter: Measured, folder: Path, longest: int | None = None) -> int:
    sizes = BatchSizes({"XDG_CACHE_HOME": str(folder)}, clock=lambda: adapter.now)
    return sizes.choose(cell, adapter, longest)


def test_the_largest_batch_that_fits_is_chosen(cell: Cell, tmp_path: Path) -> None:
    assert chosen(cell, Measured(cell, room=9), tmp_path) == 8


def test_no_batch_is_larger_than_the_limit_of_samples(cell: Cell, tmp_path: Path) -> None:
    limited = replace(cell, workload=replace(cell.workload, limit=5))
    assert chosen(limited, Measured(limited), tmp_path) == 4


def test_a_batch_that_is_no_quicker_is_not_taken(cell: Cell, tmp_path: Path) -> None:
    slow = Measured(cell, cost=lambda size: max(size, 4) / 4)  # as quick for 4 as for 1
    assert chosen(cell, slow, tmp_path) == 4


def test_a_size_is_remembered_by_model_and_length(cell: Cell, tmp_path: Path) -> None:
    assert chosen(cell, Measured(cell, room=9), tmp_path, longest=1000) == 8
    again = Measured(cell)
    assert chosen(cell, again, tmp_path, longest=900) == 8
    assert again.sizes == [0]  # nothing was asked
    assert chosen(cell, Measured(cell), tmp_path, longest=5000) == MAX_BATCH
    other = replace(cell, model=replace(cell.model, digest="other"))
    assert chosen(other, Measured(other), tmp_path, longest=1000) == MAX_BATCH


def test_memory_that_ran_out_makes_the_next_batch_smaller(cell: Cell, tmp_path: Path) -> None:
    adapter = Measured(cell, room=40)
    sizes = BatchSizes({"XDG_CACHE_HOME": str(tmp_path)}, clock=lambda: adapter.now)
    assert sizes.choose(cell, adapter, None) == 32
    sizes.reduce()
    assert sizes.choose(cell, adapter, None) == 8


def test_a_model_that_answers_nothing_fails_as_it_would_have(cell: Cell, tmp_path: Path) -> None:
    with pytest.raises(CellFailure, match="full"):
        chosen(cell, Measured(cell, room=0), tmp_path)


def test_answers_that_depend_on_their_neighbours_are_named_once(cell: Cell, tmp_path: Path) -> None:
    sizes, adapter = BatchSizes({"XDG_CACHE_HOME": str(tmp_path)}), Measured(cell)
    adapter.neighbours = True
    assert "8 of 8 greedy answers" in sizes.difference(cell, adapter, 8)
    asked = len(adapter.sizes)
    assert "8 of 8 greedy answers" in sizes.difference(cell, adapter, 4)
    assert len(adapter.sizes) == asked


def test_equal_answers_single_prompts_and_sampling_need_no_warning(
    cell: Cell, tmp_path: Path
) -> None:
    sizes, adapter = BatchSizes({"XDG_CACHE_HOME": str(tmp_path)}), Measured(cell)
    assert sizes.difference(cell, adapter, 8) == ""
    adapter.neighbours = True
    warm = replace(cell, workload=replace(cell.workload, generation={"temperature": 1.0}))
    other = replace(warm, model=replace(cell.model, digest="other"))
    assert sizes.difference(other, adapter, 8) == ""
    assert sizes.difference(replace(cell, model=other.model), adapter, 1) == ""
