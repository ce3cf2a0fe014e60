"""How renting goes for one entry of the inventory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchfleet.domain.failure import Failure, Kind, Stage
from benchfleet.domain.hardware import MachineHardware, hardware_problem
from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import Rental, RentalHistory
from benchfleet.domain.resource import Need
from benchfleet.engines.base import HostAwaited, HostLost

MAX_FAILURES = 5  # rentals in a row
_MAX_OF_IMAGE = 3  # that fail alike by what may be the image's fault
_OF_IMAGE: list[set[Kind]] = [{"no_driver"}, {"unhealthy"}]
LOOK_LIMIT_S = 1800.0  # for an offer, while no machine of the entry is rented


@dataclass
class EntryState:
    """What one run knows of an entry."""

    entry: RentEntry
    failures: list[Failure] = field(default_factory=list)  # of rentals in a row
    waits_for: str = ""  # why nothing was rented last time; "" if something was
    awaited: str | None = None  # why the runner waits, as last posted; "" if it does not
    next_offer: float = 0.0  # when to look at offers again, by the monotonic clock
    looks_since: float | None = None  # without an offer, by the same clock; None: it does not
    refused: str = ""  # why this run rents no more machine for it; "" while it may
    failure: Failure | None = None  # what cells end with that only its machines could run

    def count_failure(self, rental: Rental) -> None:
        """Take in how a rental ended. After five failures in a row the entry is given up."""
        failed = rental.failure is not None or rental.state == "void"
        if not failed or (rental.failure or {}).get("kind") == "rate_limited":
            return
        self.failures.append(failure_of(rental))
        first, latest = self.failures[0], self.failures[-_MAX_OF_IMAGE:]
        message = f"rentals of {self.entry.name} failed in a row; the first: {first}"
        if len(self.failures) >= MAX_FAILURES:
            self.give_up(first.kind, f"{MAX_FAILURES} {message}", first.stage)
        elif len(latest) == _MAX_OF_IMAGE and {one.kind for one in latest} in _OF_IMAGE:
            self.give_up(first.kind, f"{len(latest)} {message}; see the image", first.stage)

    def found_nothing(self, why: str, now: float) -> None:
        """No offer is there. After half an hour without any the entry is given up."""
        self.waits_for = why
        self.looks_since = now if self.looks_since is None else self.looks_since
        if now - self.looks_since > LOOK_LIMIT_S:
            minutes = f"{LOOK_LIMIT_S / 60:.0f} min"
            message = f"no machine for {self.entry.name} was offered within {minutes}: {why}"
            self.give_up("no_capacity", message)

    def give_up(self, kind: Kind, message: str, stage: Stage = "provision") -> None:
        """Rent no more machine for the entry."""
        self.failure = Failure(stage=stage, kind=kind, message=message, retryable=True)
        self.refused = message

    def why_waiting(
        self, history: RentalHistory, *, mine: Sequence[Rental], coming: str, waiting: bool
    ) -> str:
        """Why the runner waits for machines of the entry; "" if no further one will come. `mine`:
        open rentals of this run; `coming`: the step of one that the runner does not know yet;
        `waiting`: cells wait."""
        full = self.is_full(self.rented(history), len(mine))
        if coming:
            return f"a rented machine is being prepared: {coming}"
        if self.refused or (full and any(one.state == "ready" for one in mine)):
            return ""
        if full and mine:
            return "its last machine is being returned"
        if full:
            return "other runs rent as many machines as 'count' allows"
        if not waiting:
            return "a machine is rented once cells wait for it"
        return self.waits_for or f"looking for an offer of {self.entry.gpu}"

    def announce(self, why: str) -> HostAwaited | HostLost:
        """The event that tells the runner so."""
        self.awaited, name = why, self.entry.name
        if why:
            return HostAwaited(host=name, reason=why, bounded=True, machines=self.machines)
        return HostLost(
            host=name,
            reason=self.refused or "all are here",
            hopeless=bool(self.refused),
            removed=True,
            failure=self.failure,
        )

    @property
    def machines(self) -> tuple[MachineHardware, ...]:
        """What its machines may have."""
        gpus = (self.entry.gpu,) * self.entry.gpus
        return tuple(MachineHardware(gpus=gpus, provider=one) for one in self.entry.providers)

    def is_full(self, rented: Sequence[Rental], mine: int) -> bool:
        """Whether no further machine may be rented: of all open rentals, `mine` are this run's."""
        planned = self.entry.count if self.entry.planned is None else self.entry.planned
        return len(rented) >= self.entry.count or mine >= planned

    def due(self, waiting: Mapping[Need, int]) -> int:
        """How many of the cells that wait may run on its machines."""
        return sum(count for need, count in waiting.items() if self._suits(need))

    def shortest(self, seconds: Mapping[Need, float]) -> float:
        """The least of these for what may run on its machines; 0 where nobody knows."""
        return min((one for need, one in seconds.items() if self._suits(need)), default=0.0)

    def _suits(self, need: Need) -> bool:
        return not all(hardware_problem(need.hardware, one) for one in self.machines)

    def rented(self, history: RentalHistory) -> list[Rental]:
        """The open rentals of the entry, of all runs."""
        return [one for one in history.open if one.entry == self.entry.name]


def failure_of(rental: Rental) -> Failure:
    """The failure of a rental as cells may end with it."""
    own = rental.failure or {"stage": "provision", "kind": "no_capacity", "message": rental.why}
    stage, message = str(own["stage"]), str(own["message"])
    return Failure(
        stage="setup" if stage == "bootstrap" else "provision",
        kind=own["kind"],
        message=message if stage == "provision" else f"{stage}: {message}",
        retryable=True,
    )
