"""What is enrolled and read, what may be claimed of it, and what a claim costs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import FakeClock, sample_cell

from .conftest import CELLS, ME, SUCCESS, open_ledger


def test_an_enrolment_of_many_cells_is_that_of_each(tmp_path: Path) -> None:
    many = [sample_cell(number) for number in range(2500)]
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        assert ledger.enroll(many[::2]) == 1250
        assert ledger.enroll([*many, *many]) == 1250
        wanted = [cell.fingerprint for cell in (*many[::2], *many[1::2])]
        assert [record.fingerprint for record in ledger.cells()] == wanted
        assert ledger.enroll(sample_cell(number, priority=5) for number in range(2500)) == 0
        assert ledger.events()[-1].data == {"new": 0, "changed": 2500}


@pytest.mark.parametrize("step", [1, 2, 3, 499])
def test_few_and_most_cells_are_read_in_the_order_of_enrolment(tmp_path: Path, step: int) -> None:
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS)
        done = {claim.lease.fingerprint for claim in ledger.claim(ME, Offer(), 300)}
        chosen = [cell.fingerprint for cell in CELLS[::step]]
        shown = [record.fingerprint for record in ledger.cells(among=chosen[::-1])]
        assert shown == chosen
        running = [r.fingerprint for r in ledger.cells(among=chosen, states=["running"])]
        assert running == [fingerprint for fingerprint in chosen if fingerprint in done]


def test_a_claim_brings_the_cell_as_the_ledger_has_it(tmp_path: Path) -> None:
    first = sample_cell()
    renamed = replace(first, model=replace(first.model, name="another name"), priority=7)
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll([first])
        ledger.enroll([renamed])
        (claim,) = ledger.claim(ME, Offer())
        assert (claim.cell.model.name, claim.cell.priority) == ("tiny", 7)
        ledger.release([claim.lease], "to be claimed again")
        ledger.enroll([replace(first, priority=7)])
        assert ledger.claim(ME, Offer())[0].cell.to_dict() == claim.cell.to_dict()


def steps_of_a_claim(ledger: SqliteLedger, offer: Offer) -> int:
    """The instructions that SQLite runs for one claim, counted in hundreds."""
    ledger.release([claim.lease for claim in ledger.claim(ME, offer)], "to set up what it keeps")
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    ledger._connection.set_progress_handler(count, 100)
    claims = ledger.claim(ME, offer)
    ledger._connection.set_progress_handler(None, 0)
    assert claims
    ledger.release([claim.lease for claim in claims], "measured")
    return steps


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("crowd", ["pending", "too large", "waiting", "ended", "cancelled"])
def test_a_claim_costs_the_same_however_many_cells_cannot_be_claimed(
    tmp_path: Path, crowd: str, loaded: bool
) -> None:
    costs = []
    for size in (100, 3000):
        with closing(open_ledger(tmp_path / f"{size}.db", clock=FakeClock())) as ledger:
            many = [sample_cell(n, gpus=8 * (crowd == "too large")) for n in range(size)]
            few = [sample_cell(n, config="few", gpus=1) for n in range(5)]
            assert ledger.enroll([*many, *few]) == size + 5
            if crowd in ("waiting", "ended"):
                retry = 100.0 if crowd == "waiting" else None
                for claim in ledger.claim(ME, Offer(), size):
                    ledger.finish(claim.lease, Outcome(state="failed", retry_in=retry))
            if crowd == "cancelled":
                for cell in many[: size // 10]:
                    ledger.record(Event(kind="cancel_asked", fingerprint=cell.fingerprint))
            key = few[0].model.load_key
            offer = Offer(gpus=2, models={key: -1.0} if loaded else {})
            chosen = Offer(
                gpus=2,
                models=offer.models,
                among=Choice(cell.fingerprint for cell in (*many[: size // 2], *few)),
            )
            last = Offer(gpus=2, models=offer.models, among=Choice(c.fingerprint for c in few))
            costs.append([steps_of_a_claim(ledger, o) for o in (offer, chosen, last)])
    for small, large in zip(*costs, strict=True):
        assert large <= small + 3


def test_a_choice_follows_two_handles_that_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_ledger(path)) as one, closing(open_ledger(path)) as two:
        one.enroll(CELLS[:60])
        chosen = Choice(cell.fingerprint for cell in CELLS[:60])
        ended = []
        for turn in range(60):
            here, other = (one, two) if turn % 3 else (two, one)
            (claim,) = here.claim(ME, Offer(among=chosen))
            if turn % 5 == 0:  # it comes back
                other.release([claim.lease], "another is to have it")
                (claim,) = here.claim(ME, Offer(among=chosen))
            (other if turn % 2 else here).finish(claim.lease, SUCCESS)
            ended.append(claim.lease.fingerprint)
        assert not [*one.claim(ME, Offer(among=chosen)), *two.claim(ME, Offer(among=chosen))]
    assert sorted(ended) == sorted(cell.fingerprint for cell in CELLS[:60])
