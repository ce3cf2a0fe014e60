"""Parts of a cell that is split, and which splits are in force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.part import Split, Splits, is_part_id, parts_that_pay, whole_of
from benchfleet.ledger.history import bill, bills
from benchfleet.ledger.serialization import CellSerializer, parse_cell
from benchfleet.testing import sample_cell


@given(
    samples=st.integers(0, 40),
    count=st.integers(2, 7),
    contexts=st.sets(st.integers(1, 39)),
)
def test_parts_cover_each_sample_once_and_cut_no_context(
    samples: int, count: int, contexts: set[int]
) -> None:
    boundaries = [0, *sorted(one for one in contexts if one < samples)]
    parts = Split.evenly("f", 1, 1, count).cells(sample_cell())
    ranges = [cell.part.positions(boundaries, samples) for cell in parts if cell.part]
    assert [one for part in ranges for one in part] == list(range(samples))
    assert {part.start for part in ranges if part} <= {*boundaries}


def test_parts_of_equal_samples_are_equal() -> None:
    parts = Split.evenly("f", 1, 1, 4).cells(sample_cell())
    assert [len(one.part.positions(range(400), 400)) for one in parts if one.part] == [100] * 4


@given(
    questions=st.integers(1, 20),
    draws=st.integers(1, 3),
    count=st.integers(2, 5),
    chosen=st.sets(st.integers(0, 59)),
)
def test_parts_of_a_running_cell_have_an_equal_rest(
    questions: int, draws: int, count: int, chosen: set[int]
) -> None:
    samples = questions * draws
    recorded = {one for one in chosen if one < samples}
    split = Split.of_rest("f", 1, 1, count, samples=samples, recorded=recorded, draws=draws)
    parts = [one.part for one in split.cells(sample_cell()) if one.part]
    ranges = [part.positions(range(questions), questions) for part in parts]
    assert [one for part in ranges for one in part] == list(range(questions))
    rests = [
        sum(n * draws + draw not in recorded for n in part for draw in range(draws))
        for part in ranges
    ]
    assert max(rests) - min(rests) <= 2 * draws or len(parts) < count
    for part, positions in zip(parts, ranges, strict=True):
        answers = {n * draws + draw for n in positions for draw in range(draws)}
        assert {n for n in range(samples) if part.may_hold(n)} in (answers, set(range(samples)))


def test_a_part_is_a_cell_of_its_own_that_a_ledger_keeps() -> None:
    whole = sample_cell(limit=100, repeat=1, repeats=True)
    first, second = Split.evenly(str(whole.fingerprint), 3, 7, 2).cells(whole)
    assert first.id == "tiny/dense/benchmark-0+limit100+part1of2/r1"
    assert is_part_id(first.id)
    assert is_part_id(first.path(marked=True))
    assert not is_part_id(whole.id)
    assert not is_part_id(whole.path(marked=True))
    assert len({whole.fingerprint, first.fingerprint, second.fingerprint}) == 3
    assert whole_of(first).fingerprint == whole.fingerprint
    assert first.data_seed == whole.data_seed
    again = Split.evenly(str(whole.fingerprint), 4, 9, 2).cells(whole)
    assert again[0].fingerprint != first.fingerprint  # of another split
    kept = CellSerializer()
    for cell in (first, whole):
        read = parse_cell(kept.spec(cell), kept.terms(cell))
        assert (read.fingerprint, read.part) == (cell.fingerprint, cell.part)
        assert Cell.from_dict(cell.to_dict()).fingerprint == cell.fingerprint


def claimed(cell: str, token: int) -> Event:
    return Event(kind="claimed", fingerprint=cell, data={"token": token})


def finished(cell: str, *, retry_in: float | None = None) -> Event:
    return Event(kind="finished", fingerprint=cell, data={"outcome": {"retry_in": retry_in}})


def split_event(cell: Cell, token: int, count: int = 2) -> Event:
    split = Split.evenly(str(cell.fingerprint), token, token, count)
    return split.event(split.cells(cell))


def test_who_lost_the_lease_meanwhile_splits_nothing() -> None:
    cell = sample_cell()
    name = str(cell.fingerprint)
    splits = Splits()
    assert splits.follow([claimed(name, 1), claimed(name, 2), split_event(cell, 1)]) == []
    (made,) = splits.follow([split_event(cell, 2), split_event(cell, 2, count=5)])
    assert splits.current == {name: made}
    assert len(made.cuts) == 3  # the first one counts


@pytest.mark.parametrize("end", ["finished", "cancelled"])
def test_a_split_is_in_force_until_its_cell_ends(end: str) -> None:
    cell = sample_cell()
    name = str(cell.fingerprint)
    splits = Splits()
    splits.follow([claimed(name, 1), split_event(cell, 1), finished(name, retry_in=3.0)])
    assert name in splits.current
    cancelled = Event(kind="cancel_asked", fingerprint=name)
    splits.follow([finished(name) if end == "finished" else cancelled])
    assert splits.current == {}
    assert len(splits.follow([claimed(name, 5), split_event(cell, 5, count=3)])) == 1


def test_what_parts_used_is_on_the_bill_of_their_cell() -> None:
    cell = sample_cell()
    name = str(cell.fingerprint)
    event = split_event(cell, 1)
    used = [
        Event(kind="used", fingerprint=part, data={"token": 1, "usage": {"seconds": 10.0}})
        for part in event.data["parts"]
    ]
    own = Event(kind="used", fingerprint=name, data={"token": 3, "usage": {"seconds": 1.0}})
    events = [event, *used, own]
    assert bill(events, {name}).seconds == 21.0
    assert bill(events, {name}).attempts == 3
    assert {who: one.seconds for who, one in bills(events).items()} == {name: 21.0}


@pytest.mark.parametrize(
    ("seconds", "slots", "load", "others", "parts"),
    [
        (100, 4, 10, 0, 4),  # nothing else is to be done
        (100, 4, 40, 0, 2),  # a part takes at least as long as a load
        (100, 4, 200, 0, 1),
        (100, 1, 10, 0, 1),
        (100, 4, 10, 320, 1),  # the slots have enough to do until it ends
        (100, 4, 10, 100, 4),
        (3, 4, 0, 0, 1),  # too little for a part of its own
    ],
)
def test_a_cell_is_split_when_slots_would_be_out_of_work(
    seconds: float, slots: int, load: float, others: float, parts: int
) -> None:
    assert parts_that_pay(seconds, slots=slots, load=load, others=others) == parts
