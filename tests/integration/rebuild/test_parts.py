"""Results of parts of split cells, in a ledger that was made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.part import FOLLOWED, SPLIT, Split, Splits
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.runner.recovery.rebuild import adopt_published, rebuild
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.testing import sample_cell

from .conftest import claimed, published

WHOLE = sample_cell()
NAME = str(WHOLE.fingerprint)
EVENLY = Split.evenly(NAME, 1, 1, 4)
OF_REST = Split(fingerprint=NAME, attempt=3, token=5, cuts=(0, 7, 11, 30), of=30)


def all_states(ledger: Ledger) -> dict[str, str]:
    return {record.path: record.state for record in ledger.cells(parts=True)}


def split_now(ledger: Ledger) -> Split:
    splits = Splits()
    splits.follow(ledger.events(fingerprints=[NAME], kinds=FOLLOWED))
    return splits.current[NAME]


@pytest.mark.parametrize(
    ("split", "places"),
    [(EVENLY, [0, 1]), (EVENLY, [3]), (OF_REST, [1]), (OF_REST, [0, 2]), (OF_REST, [0, 1, 2])],
)
def test_parts_are_taken_in_and_their_cell_is_split_again(
    ledger: Ledger, layout: Layout, split: Split, places: Sequence[int]
) -> None:
    parts = [split.cells(WHOLE)[place] for place in places]
    paths = [published(layout, part)[0] for part in parts]
    output = rebuild(ledger, layout, LocalHost())
    assert (output.entered, output.unchanged, output.refused) == (len(places), 0, ())
    again = split_now(ledger)
    pending = dict.fromkeys(
        (cell.path(marked=False) for cell in (WHOLE, *again.cells(WHOLE))), "pending"
    )
    assert all_states(ledger) == pending | dict.fromkeys(paths, "success")
    assert [again.cells(WHOLE)[place] for place in places] == parts
    assert len(again.parts) == len(split.cells(WHOLE))
    begun = [part.part.start for part in again.cells(WHOLE) if part.part]
    assert begun == sorted(set(begun))
    output = rebuild(ledger, layout, LocalHost())
    assert (output.entered, output.unchanged, output.refused) == (0, len(places), ())
    assert len(ledger.events(kinds={SPLIT})) == 1


def test_a_run_on_a_new_ledger_takes_in_the_parts_of_its_cells(
    ledger: Ledger, layout: Layout
) -> None:
    repeated = sample_cell(2, repeats=True, repeat=1)
    cells = [WHOLE, repeated]
    for cell in cells:
        published(layout, Split.evenly(str(cell.fingerprint), 1, 1, 2).cells(cell)[1])
    published(layout, Split.evenly("f", 1, 1, 2).cells(sample_cell(3))[0])  # not of this run
    assert adopt_published(ledger, layout, LocalHost(), cells).entered == 2
    assert Counter(all_states(ledger).values()) == {"pending": 4, "success": 2}
    assert (
        adopt_published(ledger, layout, LocalHost(), cells).unchanged == 0
    )  # they are not even read


def test_the_result_of_the_cell_ends_the_split(ledger: Ledger, layout: Layout) -> None:
    """A kill may leave both."""
    parts = EVENLY.cells(WHOLE)
    for cell in (*parts[:3], WHOLE):
        published(layout, cell)
    assert rebuild(ledger, layout, LocalHost()).entered == 4
    assert set(all_states(ledger).values()) == {"success"}
    splits = Splits()
    splits.follow(ledger.events(kinds=FOLLOWED))
    assert not splits.current
    (event,) = ledger.events(kinds={SPLIT})  # by which the next run removes the parts
    assert sorted(event.data["parts"]) == sorted(part.fingerprint for part in parts)


def test_a_cell_that_was_split_otherwise_keeps_its_split(ledger: Ledger, layout: Layout) -> None:
    """The new ledger's runner split the cell before anybody looked for earlier results."""
    published(layout, OF_REST.cells(WHOLE)[0])
    lease = claimed(ledger, WHOLE).lease
    split = Split.evenly(NAME, lease.attempt, lease.token, 2)
    ledger.record(split.event(split.cells(WHOLE)))
    ledger.release([lease], "it was split")
    assert rebuild(ledger, layout, LocalHost()).refused == ()
    assert split_now(ledger).cuts == split.cuts


def test_a_cancelled_cell_stays_so(ledger: Ledger, layout: Layout) -> None:
    published(layout, EVENLY.cells(WHOLE)[0])
    ledger.enroll([WHOLE])
    ledger.record(Event(kind="cancel_asked", fingerprint=NAME))
    assert rebuild(ledger, layout, LocalHost()).refused == ()
    assert all_states(ledger)[WHOLE.path(marked=False)] == "cancelled"


def test_the_parts_of_the_last_of_several_splits_count(ledger: Ledger, layout: Layout) -> None:
    def last_path(cells: Sequence[Cell]) -> str:
        return published(layout, cells[-1])[0]

    paths = last_path(EVENLY.cells(WHOLE)), last_path(OF_REST.cells(WHOLE))
    assert rebuild(ledger, layout, LocalHost()).entered == 2
    assert [all_states(ledger)[path] for path in paths] == ["success", "success"]
    assert split_now(ledger).attempt == OF_REST.attempt
