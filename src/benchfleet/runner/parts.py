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
from benchfleet.engines.base import Engine
from benchfleet.ledger.base import Ledger
from benchfleet.policies.base import DEFAULT, Policy
from benchfleet.results.layout import Layout
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.results.write import AttemptFolder, SealAll, seal_all
from benchfleet.runner.course import Course
from benchfleet.runner.devices.hosts import Hosts
from benchfleet.runner.ending.attempts import Attempts
from benchfleet.runner.ending.cells import Cells
from benchfleet.runner.ending.stopping import Stopping
from benchfleet.runner.ending.writing import MOMENT, Background, Writing
from benchfleet.runner.hours import Hours
from benchfleet.runner.inbox import Inbox
from benchfleet.runner.machines import Machines
from benchfleet.runner.news import News
from benchfleet.runner.orders.orders import Here, Orders
from benchfleet.runner.progress import Observer
from benchfleet.runner.shift import Shift
from benchfleet.runner.slots.crowd import Crowd
from benchfleet.runner.slots.place import Pool
from benchfleet.runner.slots.slots import Slots
from benchfleet.runner.space import PLENTY, Room
from benchfleet.runner.trying.leases import LeaseKeeper
from benchfleet.runner.waiting.fill import Filler
from benchfleet.runner.waiting.gatekeeper import Gatekeeper
from benchfleet.runner.waiting.gates import Gating

HERE = Here()  # a machine of which nothing is known
LOOK_EVERY = 1.0  # seconds between looks at what became claimable without an arrival


class Parts:
    """What sees to parts of one run, for its loop.

    Time comes from the inbox, so that the same loop runs against a simulated fleet. `serving` is
    set once there may be slots to serve, and `ending` when nothing is to be waited for any more.
    Results are written and synced by `background`, which runs what it is given soon, here or in
    another thread; their outcomes wait for a claim no longer than `moment`. `folder` makes an
    attempt's folder, `seal_all` completes some and `publish_all` gives them their public paths, on
    whatever disk there is. `placing` tells which machine may have which cell, whenever that may
    have changed.
    """

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
        moment: float = MOMENT,
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
        self.shift = shift
        self.runner, self.ledger, self.engine, self.inbox = runner, ledger, engine, inbox
        self.layout, self.keeper, self.enrolled = layout, keeper, cells
        self.publish_all = publish_all
        self.serving = serving or threading.Event()
        self.course = Course(
            ledger=ledger,
            fingerprints=frozenset(str(cell.fingerprint) for cell in cells),
            inbox=inbox,
            observer=observer,
            room=room,
            floor=max((cell.limits.disk or 0 for cell in cells), default=0) or None,
            ending=ending or threading.Event(),
        )
        self.slots = Slots(runner[:8], engine, layout, self.course.progress)
        hosts, self.news = Hosts(engine.hosts()), News(ledger)
        attempts = Attempts(
            ledger,
            layout,
            keeper,
            provenance=provenance,
            random=random,
            folder=folder,
            seal_all=seal_all,
            publish_all=publish_all,
        )
        self.writing = Writing(
            ledger=ledger,
            inbox=inbox,
            course=self.course,
            slots=self.slots,
            attempts=attempts,
            background=background,
            moment=moment,
        )
        self.filler = Filler(
            runner=runner,
            ledger=ledger,
            keeper=keeper,
            news=self.news,
            slots=self.slots,
            pools=pools,
            hosts=hosts,
            cells={str(cell.fingerprint): cell for cell in cells},
            policy=policy or registry.load("policies", DEFAULT)(),
            now=inbox.now,
            claim=self.writing.claim,
            begin=lambda slot, claim: self.cells.begin(slot, claim),
            placing=placing,
        )
        self.devices = self.filler.devices
        self.gates = Gatekeeper(
            gating, ledger=ledger, cells=cells, course=self.course, filler=self.filler
        )
        self.cells = Cells(
            ledger=ledger,
            engine=engine,
            inbox=inbox,
            keeper=keeper,
            course=self.course,
            slots=self.slots,
            hosts=hosts,
            filler=self.filler,
            host=here.host,
            attempts=attempts,
            writing=self.writing,
        )
        self.news.tell(self.cells.cancelling.follow)
        self.crowd = Crowd(
            inbox=inbox,
            course=self.course,
            slots=self.slots,
            pools=lambda: self.devices.pools,
            measure=here.measure,
        )
        self.machines = Machines(
            inbox=inbox,
            ledger=ledger,
            course=self.course,
            slots=self.slots,
            hosts=hosts,
            devices=self.devices,
            cells=self.cells,
            crowd=self.crowd,
        )
        self.orders = Orders(
            runner=runner,
            ledger=ledger,
            engine=engine,
            inbox=inbox,
            layout=layout,
            course=self.course,
            slots=self.slots,
            hosts=hosts,
            devices=self.devices,
            cells=self.cells,
            here=here,
        )
        self.news.tell(self.orders.follow)
        self.random = random
        self.stopping = Stopping(
            inbox=inbox,
            engine=engine,
            course=self.course,
            slots=self.slots,
            cells=self.cells,
            filler=self.filler,
        )
        self.hours = Hours(
            shift,
            every=LOOK_EVERY,
            inbox=inbox,
            course=self.course,
            slots=self.slots,
            filler=self.filler,
            gates=self.gates,
            stopping=self.stopping,
        )
