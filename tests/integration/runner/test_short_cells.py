"""Short cells: slots that are idle at once claim together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from benchfleet.domain.attempt import Advice, Claim, RunnerId
from benchfleet.domain.resource import Device
from benchfleet.engines.base import AttemptRequest, SlotEvent, SlotId
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.resources.shapes import Pool
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, advised, cells, good

from .timed import taking

FOUR_SLOTS = Pool(devices=tuple(Device(kind="cpu", index=i) for i in range(4)), slots=4)


class Watched(MemoryLedger):
    """A ledger that keeps how many cells each claim asked for, and got."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(clock=stage.clock, lease=60)
        self.claims: list[tuple[int, int]] = []
        self.before_claim: Callable[[], object] = lambda: None

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        self.before_claim()
        claims = super().claim(runner, candidates, limit)
        self.claims.append((limit, len(claims)))
        return claims


@pytest.fixture
def ledger(stage: Stage) -> Watched:
    stage.ledger = ledger = Watched(stage)
    stage.engine.script = taking(1)
    return ledger


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
            claim_any(ledger, RunnerId("thief"), 2)

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
    assert len({(slot, cell.split("/")[0]) for slot, cell in stage.engine.requests}) == 4


@pytest.mark.parametrize("which", range(4))
def test_of_cells_that_were_claimed_together_only_the_one_that_is_to_have_another_slot_waits(
    stage: Stage, ledger: Watched, which: int
) -> None:
    began: dict[str, tuple[float, int]] = {}

    def script(slot: SlotId, request: AttemptRequest) -> list[tuple[float, SlotEvent]]:
        at = stage.inbox.now() - stage.inbox.began
        began[request.cell.id] = at, len(stage.engine.specs)
        return [(1, event) for _, event in good(slot, request)]

    stage.engine.script = script
    wanted = cells(8)
    refused = wanted[4 + which]
    ledger.enroll(wanted)  # in their order
    advised(stage, refused, Advice(alone=True))
    end = stage.run(wanted, FOUR_SLOTS)
    assert ledger.claims[-2:] == [(4, 4), (1, 1)]
    assert [began.pop(cell.id)[0] for cell in wanted if cell is not refused] == [0] * 4 + [1] * 3
    assert began == {refused.id: (2, 1)}  # the only slot that is open then
    assert (end.seconds, end.progress.states) == (3, {"success": 8})
    assert {record.attempt for record in ledger.cells() if record.id != refused.id} == {1}
    assert stage.heartbeat.leases() == []
