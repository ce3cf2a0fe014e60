"""The dispatcher: gives idle slots cells, and opens and closes slots as cells need them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchfleet.domain.attempt import Claim
from benchfleet.domain.cell import Cell
from benchfleet.policies.base import Preference
from benchfleet.runner.claim_policy import with_local_definition
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.resources.devices import Devices
from benchfleet.runner.resources.shapes import SlotShape
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.lanes import Lane
from benchfleet.runner.scheduler.oom_advice import OomAdvice
from benchfleet.runner.scheduler.policy_view import PolicyView
from benchfleet.runner.scheduler.reservations import Reservations, service
from benchfleet.runner.scheduler.work_stealing import WorkStealing

_NOBODY: deque[Slot] = deque()
EXTRA_CANDIDATES = 32  # cells that are sent to the ledger beyond those that are wanted


@dataclass(frozen=True, kw_only=True)
class DispatchInputs:
    """What the dispatcher works on."""

    cells: Mapping[str, Cell]  # by fingerprint; all that the runner is about
    backlog: Backlog
    advice: OomAdvice
    devices: Devices
    reservations: Reservations
    stealing: WorkStealing
    policy_view: PolicyView


class Dispatcher:
    """Claims cells for the slots of one runner.

    Cells are served by the shape of slot that they need: the largest priority first, then the
    widest. The policy chooses among the cells of one shape. Where no open slot could take a cell,
    devices are reserved for it. A slot with nothing to do closes while a cell waits for other
    devices. Cells go to the host of the plan, unless another one steals them (`work_stealing`).
    """

    def __init__(
        self,
        context: RunnerContext,
        slots: Slots,
        waiting: DispatchInputs,
        *,
        begin: Callable[[Slot, Claim], None],
        follow: Callable[[], None],
    ) -> None:
        self._runner, self._ledger, self._heartbeat = (
            context.runner,
            context.ledger,
            context.heartbeat,
        )
        self._now, self._slots = context.inbox.now, slots
        self._cells, self._backlog, self._advice = waiting.cells, waiting.backlog, waiting.advice
        self._devices, self._reservations = waiting.devices, waiting.reservations
        self._stealing, self._policy_view = waiting.stealing, waiting.policy_view
        self._begin, self._follow = begin, follow
        self._failed: set[Lane] = set()  # that a slot claimed of just now, and got nothing

    def fill(self) -> list[Slot]:
        """Give every idle slot a cell, and open slots while there is room and work; the slots
        that were opened."""
        opened: list[Slot] = []
        if self._has_room():
            self._backlog.wake(self._now())
            while not self._served(opened):
                continue  # from the beginning: a cell is to have another slot than was known
        return opened

    def _served(self, opened: list[Slot]) -> bool:
        """Serve all that waits in its order; False where that order was found to be another."""
        can_take = self._devices.can_take
        lanes = [
            lane for lane in self._backlog.lanes() if can_take(lane.need, lane.shape.excluded_hosts)
        ]
        waiting = sorted(lanes, key=service)
        shapes: dict[SlotShape, list[Lane]] = {lane.shape: [] for lane in waiting}
        for lane in lanes:
            shapes[lane.shape].append(lane)
        missing: list[SlotShape] = []
        self._failed.clear()
        self._policy_view.again()
        self._reservations.reserve(waiting)
        for shape, lanes in shapes.items():
            if not self._serve(shape, lanes, opened, missing):
                return False
        if self._has_room() and self._stealing.steal():
            return False
        if missing:
            self._retire_for(missing)
        elif waiting and not opened and self._slots.all_idle:
            return self._serve_anything(shapes, opened)
        return True

    def _serve(
        self,
        shape: SlotShape,
        lanes: Sequence[Lane],
        opened: list[Slot],
        missing: list[SlotShape],
    ) -> bool:
        """Serve the cells of one shape; as `_served`. What waits for devices that are taken is
        added to `missing`."""
        idle = [slot for slot in self._slots.idle if slot.takes(shape)]
        if (
            not idle
            and shape.preferred_host
            and self._slots.allocator.is_full(shape.preferred_host)
        ):
            return True
        warm = {lane.work.load_key for lane in lanes}
        waiting = deque(sorted(idle, key=lambda slot: slot.load_key not in warm))
        while waiting:
            if not self._claim_for(waiting.popleft(), shape, lanes, next_=waiting):
                return False
        if self._open_for(shape, lanes, opened):
            missing.append(shape)
        return True

    def _has_room(self) -> bool:
        """Whether anything could begin a cell now."""
        return self._slots.any_idle or not self._slots.allocator.full

    def _retire_for(self, missing: Iterable[SlotShape]) -> None:
        """Close what is idle on the devices that these wait for."""
        for slot in self._slots.idle:
            if any(shape.suits(slot.spec.host) for shape in missing):
                self._slots.retire(slot)

    def _serve_anything(self, shapes: Mapping[SlotShape, list[Lane]], opened: list[Slot]) -> bool:
        """Nothing goes on at all: do what the policy would rather not."""
        missing: list[SlotShape] = []
        for shape, lanes in shapes.items():
            for slot in self._slots.idle:
                if slot.takes(shape) and not self._claim_for(
                    slot, shape, lanes, preference=Preference()
                ):
                    return False
            if self._slots.any_busy:
                continue
            if self._open_for(shape, lanes, opened, preference=Preference()):
                missing.append(shape)
        self._retire_for(missing)  # those that are idle have the devices
        return True

    # A slot that is open

    def _claim_for(
        self,
        slot: Slot,
        shape: SlotShape,
        lanes: Sequence[Lane],
        *,
        preference: Preference | None = None,
        next_: deque[Slot] = _NOBODY,
    ) -> bool:
        """Claim for an idle slot; False if the claimed cell needs another slot. Of
        those that are `next_` it serves and takes out such as would claim the same."""
        vram = self._slots.allocator.free_memory(slot.spec.devices, slot.holds)
        fit = [
            lane
            for lane in lanes
            if lane.work.cells and lane.need.gpus <= slot.gpus and lane.need.vram <= vram
        ]
        if not fit:
            return True
        slots, reserved = [slot], self._reservations.lane_for(slot)
        if reserved in fit:
            preference = Preference(models={reserved.work.load_key: 0.0}, others=None)
        elif reserved is not None and service(reserved) < min(map(service, fit)):
            limit = self._reservations.seconds_before(reserved)
            short = self._backlog.ending_within(limit, slot.load_key, fit, EXTRA_CANDIDATES)
            return self._begin_all(slots, self._claim(short, 1))
        elif preference is None:
            preference = self._policy_view.of(slot, shape, fit, vram)
            if reserved is None:
                slots += self._same_model(slot, fit, next_)
        if preference is None:
            return True
        claims = self._claim_best(fit, preference, len(slots))
        if claims:
            self._policy_view.again()
        if len(claims) < len(slots):
            self._failed.update(fit)
            # The others claim for themselves next; the slot that asked waits for the next turn.
            next_.extendleft(reversed(slots[max(1, len(claims)) :]))
        return self._begin_all(slots, claims)

    def _claim_best(self, lanes: Sequence[Lane], preference: Preference, limit: int) -> list[Claim]:
        """Claim the best cells of these lanes. Where other runners were quicker, see what they
        took, and claim what is best then."""
        claims, before = list[Claim](), list[str]()
        while len(claims) < limit:
            candidates = self._backlog.candidates(lanes, preference, EXTRA_CANDIDATES + limit)
            if not candidates or candidates == before:
                break
            claims += self._claim(candidates, limit - len(claims))
            if len(claims) < limit:
                self._follow()
                before = candidates
        return claims

    def _claim(self, candidates: Sequence[str], limit: int) -> Sequence[Claim]:
        claims = self._ledger.claim(self._runner, candidates, limit) if candidates else []
        for claim in claims:
            self._heartbeat.hold(claim.lease)
            self._backlog.mark_unavailable(claim.lease.fingerprint)
        return claims

    def _begin_all(self, slots: Sequence[Slot], claims: Sequence[Claim]) -> bool:
        """Begin each on one of the slots; False where one needs another slot."""
        cells = self._cells
        vouch = (with_local_definition(claim, cells[claim.lease.fingerprint]) for claim in claims)
        begun = [self._begin_on(*one) for one in zip(slots, vouch, strict=False)]
        return all(begun)

    def _same_model(self, slot: Slot, fit: Sequence[Lane], next_: deque[Slot]) -> Iterator[Slot]:
        """Take out the slots that would claim as this one does, each one cell more: where there
        are cells of one model alone, which all of them have loaded."""
        cells = sum(lane.work.cells for lane in fit)
        if any((lane.work.load_key, lane.need.vram) != (slot.load_key, slot.holds) for lane in fit):
            return
        while next_ and cells > 1 and next_[0].is_like(slot):
            if self._reservations.lane_for(next_[0]) is not None:
                return
            cells -= 1
            yield next_.popleft()

    def _begin_on(self, slot: Slot, claim: Claim) -> bool:
        fingerprint = claim.lease.fingerprint
        if self._advice.take(fingerprint, claim.advice):
            shape = self._advice.shape(fingerprint)
            fits = slot.memory >= shape.memory and slot.alone >= shape.alone
            if shape.last_resort or not fits:
                self._heartbeat.drop(claim.lease)
                self._ledger.release([claim.lease], f"it is to be run {claim.advice}")
                self._backlog.mark_waiting(fingerprint)
                return False
        self._slots.progress.move(fingerprint, "running")
        if claim.cell.model.python == slot.spec.python:
            self._begin(slot, claim)
        else:  # it wants another interpreter: a new slot on these devices takes it
            slot.reserved = claim
            self._slots.retire(slot)
        return True

    # One more slot

    def _open_for(
        self,
        shape: SlotShape,
        lanes: Sequence[Lane],
        opened: list[Slot],
        *,
        preference: Preference | None = None,
    ) -> bool:
        """Open slots for the cells of one shape that wait; whether one waits for devices that
        are taken."""
        if not any(lane.work.cells for lane in lanes):
            return False
        if not self._has_room():
            return False
        starting = Counter(self._slots.index.starting_for(shape))
        needs: dict[tuple[int, ...], list[Lane]] = {}
        for lane in lanes:
            needs.setdefault(service(lane), []).append(lane)
        missing = False
        for _, lanes_of_need in sorted(needs.items()):
            while best := self._policy_view.one_more(
                shape, lanes_of_need, starting=starting, but=self._failed, preference=preference
            ):
                devices = self._reservations.room_for(best)
                if devices is None:
                    missing = True
                    break
                memory = max(best.need.vram, shape.memory)
                model = best.work.load_key
                slot = self._slots.open(
                    devices, shape.width, alone=shape.alone, memory=memory, opened_for=model
                )
                starting[model] += 1
                opened.append(slot)
        return missing
