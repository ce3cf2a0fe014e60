"""When a running cell is split, and what remains of a split that an outage interrupts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.part import AUTO_SPLIT, SPLIT
from benchfleet.domain.resource import Device
from benchfleet.errors import LedgerAway
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.progress import Running
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.splitter import Splitter
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any

EXPECTED_S = 100.0  # of each cell, which began ten seconds ago


def cell(number: int) -> Cell:
    declared = sample_cell(benchmark="mock_benchmark", subset=f"s{number}")
    return replace(declared, split=AUTO_SPLIT)


def running(one: Cell) -> Any:
    lease = SimpleNamespace(fingerprint=one.fingerprint)
    attempt = SimpleNamespace(
        claim=SimpleNamespace(lease=lease, cell=one), began=0.0, stage="benchmark",
        cancelled=False, done=10, before=0, key=f"{one.fingerprint}/1-1",
    )  # fmt: skip
    display = Running(slot="slot", devices="cpu:0", stage="benchmark", done=10, total=100)
    return SimpleNamespace(id="slot", attempt=attempt, device_type="", display=display)


@pytest.mark.parametrize(("cells", "stopped"), [(1, 1), (2, 0)])
def test_a_running_cell_is_no_work_beside_itself(cells: int, stopped: int) -> None:
    """Two slots: alone it is split; two of a kind keep both slots at work until they end."""
    declared = [cell(number) for number in range(cells)]
    stops: list[str] = []
    estimates = SimpleNamespace(
        expected=lambda name, device_type=None: EXPECTED_S, load=lambda model: 0.0
    )
    splitter = Splitter(
        cast(RunnerContext, SimpleNamespace(
            ledger=None, heartbeat=None, layout=None, inbox=SimpleNamespace(now=lambda: 10.0),
            engine=SimpleNamespace(stop=lambda slot, attempt: stops.append(attempt)),
        )),
        {str(one.fingerprint): one for one in declared},
        cast(Slots, SimpleNamespace(busy=list(map(running, declared)), any_idle=True)),
        cast(Backlog, SimpleNamespace(
            lanes=list, estimates=estimates, remaining=lambda endpoint: SimpleNamespace(seconds=0.0)
        )),
        pools=lambda: [Pool(devices=(Device(kind="cpu", index=0),), slots=2)],
        fetch=lambda records: None,
        was_split=lambda path, parts: None,
        add_cells=lambda cells: None,
        changed=lambda: None,
    )  # fmt: skip
    splitter.look()
    assert len(stops) == stopped


class EndsAfterSplit(MemoryLedger):
    """A ledger that goes away once a split is recorded."""

    away = False

    def record(self, event: Event, *, after: int | None = None) -> int:
        number = super().record(event, after=after)
        self.away = event.kind == SPLIT
        return number

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        if self.away:
            raise LedgerAway("it does not answer")
        return super().enroll(cells, paths=paths)


def test_a_split_stays_though_the_ledger_goes_away_before_its_parts_are_there() -> None:
    ledger = EndsAfterSplit()
    whole = replace(sample_cell(benchmark="mock_benchmark", limit=10), split=2)
    ledger.enroll([whole])
    splitter = Splitter(
        cast(RunnerContext, SimpleNamespace(
            ledger=ledger, heartbeat=SimpleNamespace(drop=lambda lease: None), layout=None,
            engine=None, inbox=SimpleNamespace(now=lambda: 10.0),
        )),
        {str(whole.fingerprint): whole},
        cast(Slots, None),
        cast(Backlog, SimpleNamespace(mark_waiting=lambda name, until: None)),
        pools=list,
        fetch=lambda records: None,
        was_split=lambda path, parts: None,
        add_cells=lambda cells: None,
        changed=lambda: None,
    )  # fmt: skip
    (claim,) = claim_any(ledger, RunnerId("me"))
    assert splitter.decide(claim) == "split"
    ledger.away = False
    (claim,) = claim_any(ledger, RunnerId("me"))
    assert splitter.decide(claim) == "later"  # its parts come first
    (split,) = ledger.events(kinds={SPLIT})
    assert len(list(ledger.cells(fingerprints=split.data["parts"]))) == 2
    assert splitter.waiting == {whole.fingerprint}
