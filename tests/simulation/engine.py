"""An engine whose slots are drawn: it keeps the whole contract, and refuses what breaks it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchfleet.domain.cell import Cell
from benchfleet.domain.part import whole_of
from benchfleet.domain.resource import Device, Need
from benchfleet.engines.base import (
    AttemptRequest,
    Done,
    EngineEvent,
    Failed,
    HostLost,
    HostReady,
    SlotEvent,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
    Stopped,
)
from simulation.hosts import Nature, RunState, SimulatedHost

Later = Callable[[float, Callable[[], None]], None]
_MISSED_IN = 5.0  # seconds until a cut connection is noticed
_ENDS_IN = 0.2  # seconds that a slot takes to end


@dataclass(kw_only=True)
class _Slot:
    """One open slot."""

    spec: SlotSpec
    ready: bool = False
    expected: bool = False  # the runner closed it
    load_key: str = ""
    state: RunState | None = None
    events: Iterator[tuple[float, SlotEvent]] | None = None


class SimulatedEngine:
    """Slots on simulated hosts, for one runner; a host without a name is the runner's own.

    `dies_at_start` is the chance that a slot never says hello; `barred` tells which hosts may not
    have a cell.
    """

    def __init__(
        self,
        *,
        post: Callable[[EngineEvent], None],
        later: Later,
        hosts: Sequence[SimulatedHost],
        natures: Mapping[str, Nature],
        chance: random.Random,
        dies_at_start: float = 0.0,
        barred: Callable[[Cell], Collection[str]] = lambda cell: (),
    ) -> None:
        self._post, self._later, self._natures = post, later, natures
        self._hosts = {host.name: host for host in hosts}
        self._chance, self._dies_at_start = chance, dies_at_start
        self._barred = barred
        self._slots: dict[SlotId, _Slot] = {}
        self._open_on: Counter[str] = Counter()
        self._taken: Counter[Device] = Counter()
        self._reached: set[str] = set()
        self._away: set[str] = set()  # and the runner knows it
        self._cut: set[str] = set()  # hosts that this runner alone cannot reach
        self.over = False
        self.broken_rules: list[str] = []
        for name in self.hosts():
            self._later(chance.uniform(0.1, 3.0), lambda name=name: self._look_at(name))  # type: ignore[misc]

    # What a runner asks

    def expect(self, waiting: Mapping[Need, int]) -> None: ...

    def hosts(self) -> Sequence[str]:
        return [name for name in self._hosts if name]

    def slots(self) -> Sequence[SlotId]:
        return list(self._slots)

    def open(self, spec: SlotSpec) -> None:
        host = self._hosts[spec.host]
        slot = self._slots[spec.slot] = _Slot(spec=spec)
        self._open_on[spec.host] += 1
        self._taken.update(spec.devices)
        if spec.host and spec.host not in self._reached:
            self._later(_MISSED_IN, lambda: self._miss(slot))
            return
        self._see_seats(host, spec)
        starts_in = host.starts_in * host.slowness * self._chance.uniform(0.5, 1.5)
        if self._chance.random() < self._dies_at_start:
            self._later(starts_in, lambda: self._lose(slot, "exit code 1", code=1))
        else:
            self._later(starts_in, lambda: self._say_hello(slot))

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        found = self._slots.get(slot)
        if found is None:
            return  # it was lost, which the runner is still to hear
        if not found.ready or found.state is not None:
            self.broken_rules.append(f"slot {slot} got an order while it was not idle")
        if found.spec.host in self._barred(request.cell):
            self.broken_rules.append(f"{request.cell.id} was given to a host that may not have it")
        nature = self._natures[str(whole_of(request.cell).fingerprint)]
        key = request.cell.model.load_key
        loaded, found.load_key = found.load_key == key, key
        found.state = RunState(
            slot=slot, spec=found.spec, request=request, nature=nature, loaded=loaded
        )
        found.events = found.state.events()
        self._go_on(found, found.state)

    def stop(self, slot: SlotId, attempt: str) -> None:
        found = self._slots.get(slot)
        if found is not None and found.state and found.state.request.attempt == attempt:
            found.state.asked_to_stop = True

    def close(self, slot: SlotId) -> None:
        self._end(slot, "exit code 0", 0)

    def kill(self, slot: SlotId) -> None:
        self._end(slot, "killed by signal 9 (SIGKILL)", -9)

    def shutdown(self) -> None:
        self._slots.clear()
        self.over = True

    # What happens

    def lose_slot(self, choice: float) -> str:
        """One of its slots is killed; which."""
        if not self._slots:
            return "none"
        slot = list(self._slots.values())[int(choice * len(self._slots))]
        self._lose(slot, "killed by signal 9 (SIGKILL)", code=-9)
        return slot.spec.slot

    def cut(self, host: str) -> None:
        """This runner cannot reach the host any more."""
        self._cut.add(host)
        self._later(_MISSED_IN, lambda: self._look_at(host))

    def mend(self, host: str) -> None:
        """It can again."""
        self._cut.discard(host)
        self._later(1.0, lambda: self._look_at(host))

    def blink(self, host: str) -> None:
        """Every connection breaks, and the host can be reached at once."""
        if host in self._reached:
            self._lose_all(host)
            self._later(1.0, lambda: self._tell_of(host))

    def look_again(self, host: str) -> None:
        """The host changed."""
        self._later(_MISSED_IN, lambda: self._look_at(host))

    def _look_at(self, name: str) -> None:
        away = name in self._cut or not self._hosts[name].here
        if self.over:
            return
        if away and name not in self._away:
            self._lose_all(name)
            self._tell_lost(name)
        elif not away and name not in self._reached:
            self._reached.add(name)
            self._tell_of(name)

    def _miss(self, slot: _Slot) -> None:
        """It could not be opened, because its host could not be reached; say what holds now."""
        self._lose(slot, "cannot be reached", host_lost=True)
        if slot.spec.host in self._reached:
            self._tell_of(slot.spec.host)
        else:
            self._tell_lost(slot.spec.host)

    def _lose_all(self, host: str) -> None:
        for slot in [slot for slot in self._slots.values() if slot.spec.host == host]:
            self._lose(slot, f"{host} cannot be reached", host_lost=True)

    def _tell_lost(self, name: str) -> None:
        self._reached.discard(name)
        self._away.add(name)
        hopeless = self._hosts[name].hopeless
        self._tell(HostLost(host=name, reason="cannot be reached", hopeless=hopeless))

    def _tell_of(self, name: str) -> None:
        if name not in self._reached or self.over:
            return
        self._away.discard(name)
        host = self._hosts[name]
        provenance = {"hostname": name}
        self._tell(
            HostReady(
                host=name, devices=host.devices, slots=host.slots, threads=1, provenance=provenance
            )
        )

    def _say_hello(self, slot: _Slot) -> None:
        if self._is_there(slot) and not slot.expected:
            slot.ready = True
            self._tell(SlotReady(slot=slot.spec.slot, hello={"slot": slot.spec.slot, "pid": 1}))

    def _go_on(self, slot: _Slot, state: RunState) -> None:
        """Have the next event come when it is due."""
        assert slot.events is not None
        seconds, event = next(slot.events)
        slowness = self._hosts[slot.spec.host].slowness
        wait = seconds * slowness * self._chance.uniform(0.8, 1.2)
        self._later(wait, lambda: self._come(slot, state, event))

    def _come(self, slot: _Slot, state: RunState, event: SlotEvent) -> None:
        if not self._is_there(slot) or slot.state is not state or slot.expected:
            return
        if isinstance(event, SlotLost):
            self._lose(slot, event.reason, code=event.exit_code)
            return
        if isinstance(event, (Done, Failed, Stopped)):
            slot.state = slot.events = None
            if not isinstance(event, Done) and not event.fit:
                slot.expected = True
                self._later(_ENDS_IN, lambda: self._lose(slot, "exit code 0", code=0))
        else:
            self._go_on(slot, state)
        self._tell(event)

    def _end(self, name: SlotId, reason: str, code: int) -> None:
        slot = self._slots.get(name)
        if slot is not None and not slot.expected:
            slot.expected = True
            self._later(_ENDS_IN, lambda: self._lose(slot, reason, code=code))

    def _lose(
        self, slot: _Slot, reason: str, *, code: int | None = None, host_lost: bool = False
    ) -> None:
        if not self._is_there(slot):
            return
        del self._slots[slot.spec.slot]
        self._open_on[slot.spec.host] -= 1
        self._taken.subtract(slot.spec.devices)
        self._tell(
            SlotLost(
                slot=slot.spec.slot,
                reason=reason,
                expected=slot.expected,
                exit_code=code,
                host_lost=host_lost and not slot.expected,
            )
        )

    def _is_there(self, slot: _Slot) -> bool:
        return not self.over and self._slots.get(slot.spec.slot) is slot

    def _see_seats(self, host: SimulatedHost, spec: SlotSpec) -> None:
        seats = max(1, -(-host.slots // len(host.devices)))
        if self._open_on[host.name] > host.slots or any(
            self._taken[device] > seats for device in spec.devices
        ):
            self.broken_rules.append(f"{spec.slot} was opened where no seat was left")

    def _tell(self, event: EngineEvent) -> None:
        if not self.over:
            self._post(event)
