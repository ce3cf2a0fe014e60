"""A small world for the real renting code: a cloud, a ledger, and runners that stop at each call.

Each runner is a thread. It stops before and after every call to the cloud or the ledger, until the
test lets it go on or kills it there. So a story can kill, freeze and overtake at every point, and
time passes only when the story says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from benchfleet.domain.event import Event
from benchfleet.domain.rental import KINDS, SUBJECT, Rental, RentalHistory
from benchfleet.errors import LedgerAway
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.providers.base import GpuOffer, InstanceSpec, Listing, Want
from benchfleet.rentals.reconcile import Reconciler
from benchfleet.rentals.renting import Limits, Renting
from benchfleet.rentals.stream import RentalStream, random_id
from benchfleet.testing.simulated_cloud import Cloud, SimulatedProvider

T = TypeVar("T")
Calls = Callable[[Callable[[], T]], T]
WINDOW = 180.0
_LEDGER = ("ledger", "ledger_read")
SPEC = InstanceSpec(label="", image="ubuntu", disk=1 << 30, public_key="ssh-ed25519 AAAA")


class Killed(BaseException):
    """The runner was killed at the call where it stands."""


class StoppingLedger(MemoryLedger):
    """The shared ledger as one runner calls it."""

    def __init__(self, ledger: MemoryLedger, runner: Runner) -> None:
        self._shared, self._runner = ledger, runner

    def record(self, event: Event, *, after: int | None = None) -> int:
        after = after if self._runner.world.ordered else None
        return self._runner.call(lambda: self._shared.record(event, after=after), "ledger")

    def events(
        self,
        since: int = 0,
        fingerprints: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        return self._runner.call(
            lambda: self._shared.events(since, fingerprints, kinds), "ledger_read"
        )


class StoppingProvider(SimulatedProvider):
    """The provider as one runner calls it."""

    def __init__(self, cloud: Cloud, runner: Runner, key: str) -> None:
        super().__init__(cloud, key, visible_within_s=WINDOW)
        self._runner = runner

    def create(self, offer: GpuOffer, spec: InstanceSpec) -> str:
        return self._runner.call(
            lambda: super(StoppingProvider, self).create(offer, spec), "create"
        )

    def list(self, prefix: str = "") -> Listing:
        return self._runner.call(lambda: super(StoppingProvider, self).list(prefix), "list")

    def destroy(self, instance: str) -> float | None:
        return self._runner.call(lambda: super(StoppingProvider, self).destroy(instance), "destroy")


class Runner:
    """One process: it rents while there is work, works, gives back, and ends once all is proved."""

    def __init__(self, world: World, name: str, *, key: str = "me") -> None:
        self.world, self.name, self._rents = world, name, key == "me"
        self.ended = self.killed = False
        self.turns = 0
        self.at = ""  # the call that it would make next
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._provider = StoppingProvider(world.cloud, self, key)
        self.stream = RentalStream(StoppingLedger(world.ledger, self), self._clock)
        self.reconciler = world.reconciler(
            stream=self.stream,
            providers={SimulatedProvider(world.cloud, "me").account(): self._provider},
            clock=self._clock,
            is_owner_dead=lambda rental: rental.owner in world.dead,
        )
        self.renting = world.renting(
            stream=self.stream, limits=world.limits, clock=self._clock, now=self._clock
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._stopped.acquire()

    def _clock(self) -> float:
        return self.world.cloud.now

    def call(self, ask: Callable[[], T], endpoint: str = "") -> T:
        """Stop, call, stop."""
        self.at = endpoint
        self._stop()
        self.at = ""
        try:
            fault = self.world.cloud.fault(endpoint) if endpoint in _LEDGER else ""
            if fault == "away":
                raise LedgerAway("no answer")
            answer = ask()
            if fault == "lost":
                raise LedgerAway("the answer was lost")
            return answer
        finally:
            self._stop()

    def _stop(self) -> None:
        if self.killed:
            raise Killed
        self._stopped.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def until(self, call: str) -> None:
        """Let it go on until it is about to make this call."""
        for _ in range(200):
            if self.at == call:
                return
            self.step()
        raise AssertionError(f"{self.name} never calls {call}")

    def step(self) -> None:
        """Let it go on to its next stop."""
        if not self.ended:
            self._go.release()
            self._stopped.acquire()

    def kill(self) -> None:
        """End it where it stands."""
        self.killed = True
        self.world.dead.add(self.name)
        self.step()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._stop()
            while not self._turn():
                self.turns += 1
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.world.errors.append(error)
        self.ended = True
        self._stopped.release()

    def _turn(self) -> bool:
        try:
            history = self.reconciler.turn()
            own = [one for one in history.open if one.owner == self.name]
            world = self.world
            if world.work:
                usable = [one for one in own if one.state in ("created", "ready")]
                world.work -= min(world.work, len(usable))
                if not own and self._rents:
                    self._rent()
            else:
                for rental in own:
                    self.renting.give_back(rental, "no work is left")
            self._stop()  # between two turns
            return not world.work and not self.stream.read().open
        except LedgerAway:
            self._stop()
            return False

    def _rent(self) -> None:
        (offer,) = self._provider.offers(Want(gpu="RTX 4090"))
        rental = Rental(
            id=random_id(),
            account=self._provider.account(),
            owner=self.name,
            offer=offer.id,
            gpu=offer.gpu,
            hourly=offer.hourly,
            billing=self._provider.billing,
            reserve=self.world.reserve,
        )
        self.renting.rent(rental, self._provider, offer, SPEC, count=self.world.count)


class World:
    """The cloud, the ledger, the runners, and what must hold at all times."""

    def __init__(
        self,
        *,
        count: int = 2,
        budget: int | None = None,
        reserve: int = 1_000_000,
        reconciler: type[Reconciler] = Reconciler,
        renting: type[Renting] = Renting,
        ordered: bool = True,
    ) -> None:
        self.cloud = Cloud()
        self.ledger = MemoryLedger(clock=lambda: self.cloud.now)
        self.limits, self.count, self.reserve = Limits(budget=budget), count, reserve
        self.reconciler, self.renting = reconciler, renting
        self.ordered = ordered  # False: the ledger does not look at `after`
        self.work = 1
        self.dead: set[str] = set()
        self.errors: list[BaseException] = []
        self.runners: list[Runner] = []

    def start(self, **options: Any) -> Runner:
        """Start one more runner."""
        runner = Runner(self, f"runner-{len(self.runners)}", **options)
        self.runners.append(runner)
        return runner

    @contextmanager
    def until_the_end(self) -> Iterator[None]:
        """Kill what still runs."""
        try:
            yield
        finally:
            for runner in self.runners:
                if not runner.ended:
                    runner.kill()

    def history(self) -> RentalHistory:
        """The rentals, as everybody may read them."""
        return RentalHistory(self.ledger.events(fingerprints=[SUBJECT], kinds=KINDS))

    def finish(self) -> None:
        """Kill all, repair all, and let one last runner end by itself."""
        for runner in self.runners:
            if not runner.ended:
                runner.kill()
        self.cloud.faults.clear()
        self.cloud.lag_s = 0.0
        self.work = 0
        last = self.start()
        for _ in range(4000):
            if last.ended:
                break
            last.step()
            self.check()
            if not last.turns % 3:
                self.cloud.advance(1.0)
        assert last.ended, "the last runner does not end"
        self.check()
        history = self.history()
        assert not self.cloud.living, "an instance was left running"
        assert not history.open
        labels = {rental.label(history.ledger_id) for rental in history.rentals.values()}
        assert labels.issuperset(self.cloud.creates)
        assert sum(one.cost for one in history.rentals.values()) == self.cloud.bill()

    def check(self) -> None:
        """The invariants."""
        if self.errors:
            raise self.errors[0]
        history = self.history()
        known = {rental.label(history.ledger_id) for rental in history.rentals.values()}
        for instance in self.cloud.instances.values():
            assert instance.label in known, "an instance without an intent"
        assert len(set(self.cloud.creates)) == len(self.cloud.creates), "a create was repeated"
        for id in self.cloud.destroyed:
            rental = history.rentals[self.cloud.instances[id].label[-8:]]
            returned = rental.state in ("returning", "ended")
            assert returned or rental.instance not in ("", id), (
                "a rental that is in use was destroyed"
            )
        self._check_prefixes()

    def _check_prefixes(self) -> None:
        history, reasons = RentalHistory(), dict[str, str]()
        for event in self.ledger.events(fingerprints=[SUBJECT], kinds=KINDS):
            history.take(event)
            if event.kind == "rental_intended":
                assert len(history.open) <= self.count
            rental = history.rentals[event.data["id"]]
            assert rental.why == reasons.setdefault(rental.id, rental.why) or not reasons[rental.id]
            reasons[rental.id] = rental.why
        for rental in history.rentals.values():
            if rental.state == "ended":
                assert not self.cloud.instances[rental.instance].lives, "it was called ended"
