"""The other machines of a run: which are here, which are away, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchfleet.domain.failure import Failure
from benchfleet.domain.hardware import MachineHardware, hardware_problem
from benchfleet.domain.resource import Device, Need
from benchfleet.engines.base import HostAwaited, HostLost, HostReady

HOST_TIMEOUT_S = 600.0  # seconds without any machine before a run is given up


class Hosts:
    """Follows what an engine says of its hosts."""

    def __init__(self, names: Iterable[str]) -> None:
        self._away: dict[str, HostLost | None] = dict.fromkeys(names)  # None: not reached yet
        self._present: set[str] = set()
        self._doubted: set[str] = set()
        self._bounded: set[str] = set()  # awaited by an engine that ends the wait itself
        self._removed: HostLost | None = None  # the last that left for good
        self._provenance: dict[str, Mapping[str, Any]] = {}
        self._spare: dict[str, Sequence[Device]] = {}
        self._abandoned: dict[str, Failure] = {}  # why no machine will come, by what stood for it
        self._coming: dict[str, Sequence[MachineHardware]] = {}  # by what stands for hosts to come

    @property
    def expecting(self) -> bool:
        """Whether a host may still connect without a repair."""
        return any(lost is None or not lost.hopeless for lost in self._away.values())

    @property
    def expected(self) -> frozenset[str]:
        """Those that may."""
        return frozenset(
            host for host, lost in self._away.items() if lost is None or not lost.hopeless
        )

    @property
    def unmet(self) -> frozenset[str]:
        """The hosts that have not connected yet."""
        return frozenset(host for host, lost in self._away.items() if lost is None)

    @property
    def why(self) -> str:
        """Why those that are away are away; where none is, why the last one left."""
        away: dict[str, HostLost | None] = dict(self._away)
        if not away and self._removed is not None:
            away = {self._removed.host: self._removed}
        return "; ".join(
            f"{host}: {lost.reason if lost else 'not reached yet'}" for host, lost in away.items()
        )

    def is_present(self, host: str) -> bool:
        """Whether slots can be opened on it; this machine (``""``) is always present."""
        return not host or host in self._present

    def is_away(self, host: str) -> bool:
        """Whether slots cannot be opened on it, or nobody knows whether they can."""
        return host in self._away

    def is_doubted(self, host: str) -> bool:
        """Whether a connection to it broke, and it has not returned since."""
        return host in self._doubted

    def ready(self, event: HostReady) -> None:
        self._away.pop(event.host, None)
        self._present.add(event.host)
        self._doubted.discard(event.host)
        self._provenance[event.host] = event.provenance
        self._spare[event.host] = event.spare

    def doubt(self, host: str, reason: str) -> None:
        """A connection to it broke; its engine is about to say what that means."""
        if host in self._present:
            self._present.discard(host)
            self._away[host] = HostLost(host=host, reason=reason)
            self._doubted.add(host)

    def lost(self, event: HostLost) -> None:
        if event.failure is not None:
            self._abandoned.setdefault(event.host, event.failure)
        self._present.discard(event.host)
        self._doubted.discard(event.host)
        if event.removed:
            self._away.pop(event.host, None)
            self._spare.pop(event.host, None)
            self._removed = event
        else:
            self._away[event.host] = event

    def await_more(self, event: HostAwaited) -> None:
        """Others may join."""
        self._away[event.host] = HostLost(host=event.host, reason=event.reason)
        self._coming[event.host] = event.machines
        (self._bounded.add if event.bounded else self._bounded.discard)(event.host)

    def lacks(self, host: str, need: Need) -> str:
        """Why a host that is away will not be the hardware that cells name; "" if it may be."""
        reasons = [hardware_problem(need.hardware, one) for one in self._coming.get(host, ())]
        return "; ".join(reasons) if all(reasons) else ""

    @property
    def has_abandoned(self) -> bool:
        """Whether an engine gave up on getting a machine."""
        return bool(self._abandoned)

    def failure_of(self, need: Need) -> Failure | None:
        """Why no machine with the hardware that cells name will come; None if no engine gave one
        up."""
        suited = (why for host, why in self._abandoned.items() if not self.lacks(host, need))
        return next(suited, None)

    @property
    def is_wait_bounded(self) -> bool:
        """Whether an engine is on its way to a host, and says itself when it gives up."""
        return not self._bounded.isdisjoint(self._away)

    def spare(self, host: str) -> Sequence[Device]:
        """What it has beside that which it came with."""
        return self._spare.get(host, ())

    def provenance(self, host: str) -> Mapping[str, Any]:
        """What every result made there says; empty for this machine."""
        return self._provenance.get(host, {})
