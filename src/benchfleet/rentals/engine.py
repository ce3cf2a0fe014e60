"""Slots on rented machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchfleet.domain.rental import Account
from benchfleet.domain.resource import Need
from benchfleet.engines.base import AttemptRequest, Engine, Post, SlotId, SlotSpec
from benchfleet.engines.slot_router import SlotRouter
from benchfleet.ledger.base import Ledger
from benchfleet.providers.base import Provider
from benchfleet.rentals.clocks import Clocks
from benchfleet.rentals.manager import RentalManager
from benchfleet.rentals.rented_host import RentedHost
from benchfleet.rentals.request import RentRequest


class RentedEngine(SlotRouter):
    """Opens slots on rented hosts; see `benchfleet.engines.base` for the contract.

    A `RentalManager` rents and returns the machines; `SshEngine` connects to each. `shutdown`
    returns all of them. `await_end` notes in `request.remaining` what is not proved to be gone.
    """

    def __init__(
        self,
        post: Post,
        request: RentRequest,
        ledger: Ledger,
        accounts: Mapping[Account, Provider],
        clocks: Clocks = Clocks(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(post)
        self._manager = RentalManager(post, request, ledger, accounts, clocks)
        self._manager.thread.start()

    def slots(self) -> Sequence[SlotId]:
        return [slot for host in self._hosts() if host.engine for slot in host.engine.slots()]

    def hosts(self) -> Sequence[str]:
        """The entries stand for hosts that are to come, until a `HostLost` ends that."""
        names = [host.name for host in self._hosts()]
        return [*names, *(one.entry.name for one in self._manager.entries)]

    def expect(self, waiting: Mapping[Need, int]) -> None:
        self._manager.expect(waiting)

    def open(self, spec: SlotSpec) -> None:
        with self._manager.lock:  # the host must not end meanwhile
            if host := self._host(spec.host):
                host.usage.began(spec.slot)
            super().open(spec)

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        for host in self._hosts():
            host.usage.began(slot, cell=True)
        super().run(slot, request)

    def _hosts(self) -> list[RentedHost]:
        with self._manager.lock:
            return list(self._manager.hosts.values())

    def _host(self, name: str) -> RentedHost | None:
        return next((one for one in self._hosts() if one.name == name), None)

    def _engine_of(self, host: str) -> Engine | None:
        rented = self._host(host)
        return rented.engine if rented else None

    def shutdown(self) -> None:
        """End all slots and ask for the end of all machines; `await_end` waits for the proof."""
        self._manager.end()

    def await_end(self, interrupted: Callable[[], bool]) -> None:
        """Wait until lists prove that all are gone, or the time is up, or somebody interrupts."""
        self._manager.end()
        self._manager.proof.wait(interrupted)
