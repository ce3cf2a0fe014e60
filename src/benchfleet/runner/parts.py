"""The parts of a runner, made and tied to each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchfleet import registry
from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.placing import Placing
from benchfleet.engines.base import (
    Engine,
)
from benchfleet.ledger.base import Ledger
from benchfleet.policies.base import DEFAULT, Policy
from benchfleet.results.layout import Layout
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.results.write import AttemptFolder, SealAll, seal_all
from benchfleet.runner.attempts import Attempts
from benchfleet.runner.cells import Background, Cells
from benchfleet.runner.course import Course
from benchfleet.runner.crowd import Crowd
from benchfleet.runner.fill import Filler
from benchfleet.runner.gatekeeper import Gatekeeper
from benchfleet.runner.gates import Gating
from benchfleet.runner.hosts import Hosts
from benchfleet.runner.hours import Hours
from benchfleet.runner.inbox import (
    Inbox,
)
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.machines import Machines
from benchfleet.runner.news import News
from benchfleet.runner.orders import Here, Orders
from benchfleet.runner.place import Pool
from benchfleet.runner.progress import Observer
from benchfleet.runner.shift import Shift
from benchfleet.runner.slots import Slots
from benchfleet.runner.space import PLENTY, Room
from benchfleet.runner.stopping import Stopping

HERE = Here()  # a machine of which nothing is known
LOOK_EVERY = 1.0  # seconds between looks at what became claimable without an arrival


class Parts:
    """What sees to parts of one run, for its loop."""

    def __init__(
        self,
        *,
        runner: RunnerId,
        ledger: Ledger,
        engine: Engine,
        inbox: Inbox,
        layout: Layout,
        pools: Sequence[Pool],
        cells: Sequence[Cell],
        observer: Observer,
        keeper: LeaseKeeper,
        provenance: Callable[[], Mapping[str, Any]],
        random: Callable[[], float],
        background: Background,
        policy: Policy | None = None,
        room: Callable[[], Room] = lambda: PLENTY,
        folder: Callable[[Path], AttemptFolder] = AttemptFolder,
        seal_all: SealAll = seal_all,
        publish_all: PublishAll = publish_all,
        ending: threading.Event | None = None,
        serving: threading.Event | None = None,
        here: Here = HERE,
        shift: Shift = Shift(),  # noqa: B008 - frozen
        gating: Gating = Gating(),  # noqa: B008 - frozen
        placing: Callable[[], Placing] = Placing,
    ) -> None:
        self._shift = shift
        self._runner, self._ledger, self._engine, self._inbox = runner, ledger, engine, inbox
        self._layout, self._keeper, self._enrolled = layout, keeper, cells
        self._publish_all = publish_all
        self._serving = serving or threading.Event()
        self._course = Course(
            ledger=ledger,
            fingerprints=frozenset(str(cell.fingerprint) for cell in cells),
            inbox=inbox,
            observer=observer,
            room=room,
            floor=max((cell.limits.disk or 0 for cell in cells), default=0) or None,
            ending=ending or threading.Event(),
        )
        self._slots = Slots(runner[:8], engine, layout, self._course.progress)
        hosts, self._news = Hosts(engine.hosts()), News(ledger)
        self._filler = Filler(
            runner=runner,
            ledger=ledger,
            keeper=keeper,
            news=self._news,
            slots=self._slots,
            pools=pools,
            hosts=hosts,
            cells={str(cell.fingerprint): cell for cell in cells},
            policy=policy or registry.load("policies", DEFAULT)(),
            now=inbox.now,
            begin=lambda slot, claim: self._cells.begin(slot, claim),
            placing=placing,
        )
        self._devices = self._filler.devices
        self._gates = Gatekeeper(
            gating, ledger=ledger, cells=cells, course=self._course, filler=self._filler
        )
        self._cells = Cells(
            ledger=ledger,
            engine=engine,
            inbox=inbox,
            keeper=keeper,
            course=self._course,
            slots=self._slots,
            hosts=hosts,
            filler=self._filler,
            host=here.host,
            attempts=Attempts(
                ledger,
                layout,
                keeper,
                provenance=provenance,
                random=random,
                folder=folder,
                seal_all=seal_all,
                publish_all=publish_all,
            ),
            background=background,
        )
        self._news.tell(self._cells.cancelling.follow)
        self._crowd = Crowd(
            inbox=inbox,
            course=self._course,
            slots=self._slots,
            pools=lambda: self._devices.pools,
            measure=here.measure,
        )
        self._machines = Machines(
            inbox=inbox,
            ledger=ledger,
            course=self._course,
            slots=self._slots,
            hosts=hosts,
            devices=self._devices,
            cells=self._cells,
            crowd=self._crowd,
        )
        self._orders = Orders(
            runner=runner,
            ledger=ledger,
            engine=engine,
            inbox=inbox,
            layout=layout,
            course=self._course,
            slots=self._slots,
            hosts=hosts,
            devices=self._devices,
            cells=self._cells,
            here=here,
        )
        self._news.tell(self._orders.follow)
        self._random = random
        self._stopping = Stopping(
            inbox=inbox,
            engine=engine,
            course=self._course,
            slots=self._slots,
            cells=self._cells,
            filler=self._filler,
        )
        self._hours = Hours(
            shift,
            every=LOOK_EVERY,
            inbox=inbox,
            course=self._course,
            slots=self._slots,
            filler=self._filler,
            gates=self._gates,
            stopping=self._stopping,
        )
        self._waits_for = ""
        self._told_kept_off: set[str] = set()
