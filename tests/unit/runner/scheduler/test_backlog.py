"""Which cells a runner claims first: by priority, rank, and the order of enrolment."""

from __future__ import annotations

from collections.abc import Container, Iterable

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.policies.base import Policy, Preference
from benchfleet.policies.fifo import Fifo
from benchfleet.runner.resources.shapes import SlotShape
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.testing.sample_cells import sample_cell

ANY = Preference()


class BySubset(Fifo):
    """Ranks cells by the number that their subset names."""

    def rank(self, cell: Cell, expected: float | None) -> float:
        return float(cell.workload.subset or 0)


def by_name(cells: Iterable[Cell]) -> dict[str, Cell]:
    return {str(cell.fingerprint): cell for cell in cells}


def backlog(*cells: Cell, policy: Policy | None = None, first: int = 0) -> Backlog:
    """A backlog in which all of these wait."""
    return waiting(by_name(cells), policy, first)


def waiting(
    known: dict[str, Cell],
    policy: Policy | None = None,
    first: int = 0,
    held: Container[str] = (),
) -> Backlog:
    found = Backlog(
        RunnerId("me"),
        known,
        policy or Fifo(),
        "cpu",
        lambda fingerprint: SlotShape(1),
        holds=lambda fingerprint: fingerprint in held,
        first=first,
    )
    for fingerprint in known:
        found.mark_waiting(fingerprint)
    return found


def best(
    found: Backlog, cells: list[Cell], preference: Preference = ANY, count: int = 99
) -> list[int]:
    """The numbers of the candidates, in their order."""
    names: list[str] = [cell.fingerprint for cell in cells]
    return [names.index(one) for one in found.candidates(found.lanes(), preference, count)]


def test_cells_go_by_priority_then_by_enrolment_across_models_and_configs() -> None:
    cells = [
        sample_cell(n, model="ab"[n % 2], config="cd"[n // 2 % 2], priority=p)
        for n, p in enumerate((0, 5, -1, 5, 0))
    ]
    assert best(backlog(*cells), cells) == [1, 3, 0, 4, 2]
    assert best(backlog(*cells), cells, count=2) == [1, 3]


def test_the_rank_and_what_a_slot_adds_for_a_model_are_one_sum() -> None:
    cells = [sample_cell(n, model="ab"[n % 2], subset=str(n + 1)) for n in range(4)]
    found = backlog(*cells, policy=BySubset())
    assert best(found, cells) == [0, 1, 2, 3]
    preference = Preference(models={cells[0].model.load_key: 1.5})
    assert best(found, cells, preference) == [1, 0, 3, 2]
    only = Preference(models={cells[1].model.load_key: 0.0}, others=None)
    assert best(found, cells, only) == [1, 3]


def test_a_runner_may_begin_anywhere_among_cells_that_are_equally_good() -> None:
    cells = [sample_cell(n, priority=int(n == 1)) for n in range(5)]
    assert best(backlog(*cells, first=3), cells) == [1, 3, 4, 0, 2]


def test_what_is_taken_leaves_and_what_comes_back_has_its_old_place() -> None:
    cells = [sample_cell(n) for n in range(3)]
    found = backlog(*cells)
    found.mark_unavailable(cells[0].fingerprint)
    found.mark_running_elsewhere(cells[1].fingerprint, now=0.0)
    assert best(found, cells) == [2]
    found.follow([Event(kind="released", fingerprint=cells[0].fingerprint)], now=1.0)
    assert best(found, cells) == [0, 2]
    found.mark_waiting(cells[1].fingerprint, until=10.0)
    found.wake(9.0)
    assert best(found, cells) == [0, 2]
    found.wake(10.0)
    assert best(found, cells) == [0, 1, 2]


def test_cells_that_a_campaign_brings_later_come_last() -> None:
    cells = [sample_cell(n) for n in range(4)]
    known, new = by_name(cells[:2]), by_name(cells[2:])
    found = waiting(known, first=1)
    known.update(new)
    found.add_cells(new)
    for fingerprint in new:
        found.mark_waiting(fingerprint)
    assert best(found, cells) == [1, 0, 2, 3]


def test_trials_do_not_tell_what_whole_cells_take() -> None:
    whole, trial = sample_cell(), sample_cell(1, limit=2)
    of_whole, of_trials = backlog(whole), backlog(sample_cell(2, limit=2, subset="other"))
    for found in (of_whole, of_trials):
        found.estimates.remember([(trial, Outcome(state="success", seconds={"benchmark": 0.1}))])
    assert of_whole.estimates.typical is None
    assert of_trials.estimates.typical == 0.1
    of_whole.estimates.learn(whole, Outcome(state="success", seconds={"benchmark": 90.0}))
    assert of_whole.estimates.typical == 90.0


def test_a_cell_that_this_runner_gave_back_for_a_while_waits_that_long() -> None:
    """The runner reads its own release after it set the time; another one's is news."""
    mine, theirs = cells = [sample_cell(number) for number in range(2)]
    found = waiting(by_name(cells))
    for cell in cells:
        found.mark_waiting(cell.fingerprint, until=10.0)
    runners = zip(cells, ("me", "other"), strict=True)
    releases = [
        Event(kind="released", fingerprint=cell.fingerprint, data={"token": 1, "runner": runner})
        for cell, runner in runners
    ]
    found.follow(releases, now=5.0)
    assert list(found.waiting) == [theirs.fingerprint]
    found.wake(9.9)
    assert list(found.waiting) == [theirs.fingerprint]
    found.wake(10.0)
    assert {*found.waiting} == {mine.fingerprint, theirs.fingerprint}
    found.mark_unavailable(mine.fingerprint)
    found.follow(releases, now=11.0)  # no time is set any more
    assert mine.fingerprint in found.waiting


def test_a_claim_of_this_runner_counts_once_it_holds_the_lease() -> None:
    """A ledger may claim a cell ahead, and an answer may be lost: the cell is asked for."""
    ahead, held, theirs = cells = [sample_cell(number) for number in range(3)]
    found = waiting(by_name(cells), held={str(held.fingerprint)})
    runners = zip(cells, ("me", "me", "other"), strict=True)
    claims = [
        Event(kind="claimed", fingerprint=cell.fingerprint, data={"token": 1, "runner": runner})
        for cell, runner in runners
    ]
    found.follow(claims, now=5.0)
    assert list(found.waiting) == [ahead.fingerprint]
    assert found.running_elsewhere == {theirs.fingerprint: 5.0}
