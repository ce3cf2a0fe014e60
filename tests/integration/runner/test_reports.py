"""What reports keep off machines, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.conditions import Fact, parse_condition
from benchfleet.domain.eligibility import KINDS, Eligibility, Rule
from benchfleet.domain.placement import Placement, Reported
from benchfleet.domain.plan import Plan
from benchfleet.engines.base import AttemptRequest, HostLost, SlotEvent, SlotId
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, cells, good

from .fleets import NOWHERE, host_ready, of_two, ran

EMPTY: dict[str, Fact] = {"text": "", "truth": False}
NOTHING = {name: EMPTY.get(kind, 0) for name, kind in KINDS.items()}


def large_models_need_memory(**ram: int) -> Placement:
    """Machines with so many GB, where model ``large`` needs ten."""
    rule = Rule(name="big", when=parse_condition("ram_total >= 10GB", KINDS), models=("large",))
    return Placement(
        rules=Eligibility(rules=(rule,), tiers=()),
        machines={
            name: Reported(facts={**NOTHING, "ram_total": gb * 10**9}, by=f"report of {name}")
            for name, gb in ram.items()
        },
    )


def test_no_host_gets_what_its_report_keeps_off_it(stage: Stage) -> None:
    of_two(stage, slots=2)
    stage.placement = lambda: large_models_need_memory(lab1=4, lab2=16)
    small, large = cells(4, model="small"), [sample_cell(n, model="large") for n in range(10, 16)]
    end = stage.run([*large, *small], NOWHERE)
    assert end.progress.states == {"success": 10}
    found = ran(stage)
    assert not any("large" in cell for cell in found["lab1"])
    assert sum("large" in cell for cell in found["lab2"]) == 6
    (output,) = stage.notices_of("kept_off")
    assert output.message == (
        "lab1 is given none of 6 cells of large: "
        "big: ram_total is 4 GB, not >= 10 GB (report of lab1)"
    )


def test_a_host_without_a_report_may_have_any_cell(stage: Stage) -> None:
    of_two(stage)
    stage.placement = lambda: large_models_need_memory(lab1=4)
    end = stage.run([sample_cell(n, model="large") for n in range(3)], NOWHERE)
    assert end.progress.states == {"success": 3}
    assert set(ran(stage)) == {"lab2"}


def test_what_no_report_allows_is_named_with_every_reason_and_waited_for_by_nobody(
    stage: Stage,
) -> None:
    of_two(stage)
    stage.engine.far = ("lab1", "lab2", "lab3")  # which is off, and tried again and again
    stage.inbox.post(HostLost(host="lab3", reason="it is off"))
    stage.placement = lambda: large_models_need_memory(lab1=4, lab2=5, lab3=6)
    end = stage.run([*cells(1), sample_cell(9, model="large")], NOWHERE)
    assert end.progress.states == {"success": 1, "pending": 1}
    assert end.seconds < 60
    ((cell, why),) = end.impossible
    assert cell.model.name == "large"
    assert all(f"{name}: big: ram_total is {gb} GB" in why for name, gb in zip(
        ("lab1", "lab2", "lab3"), (4, 5, 6), strict=True
    ))  # fmt: skip


def test_a_cell_waits_for_the_host_that_is_away_and_alone_may_have_it(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1"))
    stage.inbox.post(HostLost(host="lab2", reason="it is off"))
    stage.inbox.post(host_ready("lab2"), after=100)
    stage.placement = lambda: large_models_need_memory(lab1=4, lab2=16)
    end = stage.run([*cells(1), sample_cell(9, model="large")], NOWHERE)
    assert end.progress.states == {"success": 2}
    assert ran(stage)["lab2"] == [sample_cell(9, model="large").id]


def test_this_machine_is_kept_from_what_its_own_report_says(stage: Stage) -> None:
    placement = large_models_need_memory(desk=4)
    placement = Placement(rules=placement.rules, machines={"": placement.machines["desk"]})
    stage.placement = lambda: placement
    end = stage.run([*cells(2), sample_cell(9, model="large")])
    assert end.progress.states == {"success": 2, "pending": 1}
    ((_, why),) = end.impossible
    assert why == "big: ram_total is 4 GB, not >= 10 GB (report of desk)"


def test_a_machine_that_is_probed_again_gets_what_it_may_have_by_now(stage: Stage) -> None:
    of_two(stage)
    output = [large_models_need_memory(lab1=4, lab2=4)]
    stage.placement = lambda: output[-1]

    def probed(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        output.append(large_models_need_memory(lab1=16, lab2=4))
        stage.ledger.record(Plan().event())
        return good(slot, request)

    stage.engine.script = probed
    end = stage.run([*cells(1), sample_cell(9, model="large")], NOWHERE)
    assert end.progress.states == {"success": 2}
    assert sample_cell(9, model="large").id in ran(stage)["lab1"]
