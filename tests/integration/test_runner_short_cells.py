"""Short cells: slots that are idle at once claim together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from benchfleet.domain.attempt import Claim, RunnerId
from benchfleet.domain.resource import Device, Offer
from benchfleet.engines.base import Order, SlotEvent, SlotId
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.slots.place import Pool
from benchfleet.testing.samples import sample_cell
from stage import Stage, cells, good

FOUR_SLOTS = Pool(devices=tuple(Device(kind="cpu", index=i) for i in range(4)), slots=4)


class Watched(MemoryLedger):
    """A ledger that keeps how many cells each claim asked for, and got."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(clock=stage.clock, lease=60)
        self.claims: list[tuple[int, int]] = []
        self.before_claim: Callable[[], object] = lambda: None

    def claim(self, runner: RunnerId, offer: Offer, limit: int = 1) -> Sequence[Claim]:
        self.before_claim()
        claims = super().claim(runner, offer, limit)
        self.claims.append((limit, len(claims)))
        return claims


@pytest.fixture
def ledger(stage: Stage) -> Watched:
    stage.ledger = ledger = Watched(stage)
    stage.engine.script = taking(1)
    return ledger


def taking(*seconds: float) -> Callable[[SlotId, Order], list[tuple[float, SlotEvent]]]:
    """Cells that take so long, one after the other; the last of these holds for all others."""
    left = list(seconds)

    def script(slot: SlotId, order: Order) -> list[tuple[float, SlotEvent]]:
        took = left.pop(0) if len(left) > 1 else left[0]
        return [(took, event) for _, event in good(slot, order)]

    return script


def test_slots_that_are_idle_at_once_claim_together(stage: Stage, ledger: Watched) -> None:
    end = stage.run(cells(14), FOUR_SLOTS)
    assert ledger.claims == [(1, 1)] * 4 + [(4, 4), (4, 4), (2, 2)]
    assert (end.seconds, end.progress.states) == (4, {"success": 14})


def test_where_others_were_quicker_the_slots_that_got_nothing_claim_again(
    stage: Stage, ledger: Watched
) -> None:
    def others() -> None:
        if len(ledger.claims) == 4:
            ledger.before_claim = lambda: None
            ledger.claim(RunnerId("thief"), Offer(), 2)

    ledger.before_claim = others
    end = stage.run(cells(8), FOUR_SLOTS)
    assert ledger.claims[4:6] == [(2, 2), (4, 2)]
    assert end.progress.states == {"success": 8}  # those of the thief once its leases ran out


def test_where_a_slot_may_get_another_model_each_claims_for_itself(
    stage: Stage, ledger: Watched
) -> None:
    mixed = [sample_cell(n, model=name) for n in range(6) for name in ("a", "b")]
    stage.run(mixed, FOUR_SLOTS)
    assert set(ledger.claims) == {(1, 1)}
    assert len({(slot, cell.split("/")[0]) for slot, cell in stage.engine.orders}) == 4
