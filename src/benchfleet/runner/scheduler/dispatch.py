"""The dispatcher: gives idle slots cells, and opens and closes slots as cells need them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from benchfleet.policies.base import Preference
from benchfleet.runner.resources.devices import Devices
from benchfleet.runner.resources.shapes import SlotShape
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.claims import LanesChanged, SlotClaims
from benchfleet.runner.scheduler.lanes import Lane
from benchfleet.runner.scheduler.policy_view import PolicyView
from benchfleet.runner.scheduler.reservations import Reservations, serving_order
from benchfleet.runner.scheduler.work_stealing import WorkStealing

ANY_MODEL = Preference()


class Dispatcher:
    """Serves the waiting cells of one runner, in turns.

    A turn serves one shape of slot after the other: last resorts last, then the largest priority
    first, then the widest.
    The policy chooses among the cells of one shape. Where no open slot could take a cell, devices
    are reserved for it. An idle slot closes while a cell that its host may run waits for devices.
    Cells go to the host of the plan, unless another one steals them (`work_stealing`).
    """

    def __init__(
        self,
        slots: Slots,
        *,
        backlog: Backlog,
        claims: SlotClaims,
        devices: Devices,
        reservations: Reservations,
        policy_view: PolicyView,
        stealing: WorkStealing,
    ) -> None:
        self._slots, self._backlog, self._claims = slots, backlog, claims
        self._devices, self._reservations = devices, reservations
        self._policy_view, self._stealing = policy_view, stealing

    def take_turns(self, now: float) -> list[Slot]:
        """Give every idle slot a cell, and open slots while there is room and work; the slots
        that were opened."""
        opened: list[Slot] = []
        if not self._has_room():
            return opened
        self._backlog.wake(now)
        while True:
            try:
                self._take_turn(opened)
            except LanesChanged:
                continue  # a new turn, with the lanes of now
            return opened

    def _has_room(self) -> bool:
        """Whether anything could begin a cell now."""
        return self._slots.any_idle or not self._slots.allocator.full

    def _take_turn(self, opened: list[Slot]) -> None:
        """One turn: serve all that waits, in its order. Slots that open are added to `opened`."""
        lanes = [
            lane
            for lane in self._backlog.lanes()
            if self._devices.can_take(lane.need, lane.shape.excluded_hosts)
        ]
        ordered = sorted(lanes, key=serving_order)
        by_shape: dict[SlotShape, list[Lane]] = {lane.shape: [] for lane in ordered}
        for lane in lanes:
            by_shape[lane.shape].append(lane)
        self._claims.exhausted.clear()
        self._policy_view.forget()
        self._reservations.reserve(ordered)
        blocked = [shape for shape in by_shape if self._serve(shape, by_shape[shape], opened)]
        if self._has_room() and self._stealing.steal():
            raise LanesChanged
        if blocked:
            self._retire_for(blocked)
        elif ordered and not opened and self._slots.all_idle:
            self._serve_regardless(by_shape, opened)

    def _serve(self, shape: SlotShape, lanes: Sequence[Lane], opened: list[Slot]) -> bool:
        """Serve the cells of one shape; whether some wait for devices that are taken."""
        idle = [slot for slot in self._slots.idle if slot.takes(shape)]
        host = shape.preferred_host
        if not idle and host and not shape.endpoint and self._slots.allocator.is_full(host):
            return False
        warm = {lane.work.load_key for lane in lanes}
        queue = deque(sorted(idle, key=lambda slot: slot.load_key not in warm))
        while queue:
            self._claims.claim_for(queue.popleft(), shape, lanes, next_slots=queue)
        return self._open_slots(shape, lanes, opened)

    def _serve_regardless(
        self, by_shape: Mapping[SlotShape, list[Lane]], opened: list[Slot]
    ) -> None:
        """Serve cells although the policy would rather wait: nothing else goes on."""
        blocked: list[SlotShape] = []
        for shape, lanes in by_shape.items():
            for slot in self._slots.idle:
                if slot.takes(shape):
                    self._claims.claim_for(slot, shape, lanes, preference=ANY_MODEL)
            if not self._slots.any_busy and self._open_slots(
                shape, lanes, opened, preference=ANY_MODEL
            ):
                blocked.append(shape)
        self._retire_for(blocked)  # those that are idle have the devices

    def _retire_for(self, blocked: Iterable[SlotShape]) -> None:
        """Close the idle slots of the hosts that may run these shapes."""
        for slot in self._slots.idle:
            if any(
                shape.suits(slot.spec.host) and shape.endpoint == slot.endpoint for shape in blocked
            ):
                self._slots.retire(slot)

    def _open_slots(
        self,
        shape: SlotShape,
        lanes: Sequence[Lane],
        opened: list[Slot],
        *,
        preference: Preference | None = None,
    ) -> bool:
        """Open slots for the waiting cells of one shape; whether some wait for devices that are
        taken."""
        if not (self._has_room() and any(lane.work.cells for lane in lanes)):
            return False
        starting = Counter(self._slots.index.starting_for(shape))
        by_order: dict[tuple[int, ...], list[Lane]] = {}
        for lane in lanes:
            by_order.setdefault(serving_order(lane), []).append(lane)
        blocked = False
        for _, equals in sorted(by_order.items()):
            while best := self._policy_view.one_more(
                shape,
                equals,
                starting=starting,
                but=self._claims.exhausted,
                preference=preference,
            ):
                devices = self._reservations.room_for(best)
                if devices is None:
                    blocked = True
                    break
                self._reservations.end(best)
                slot = self._slots.open(
                    devices,
                    shape.width,
                    alone=shape.alone,
                    memory=max(best.need.vram, shape.memory),
                    opened_for=best.work.load_key,
                )
                starting[best.work.load_key] += 1
                opened.append(slot)
        return blocked
