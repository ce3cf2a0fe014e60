"""The view of the run that a placement policy gets, and its preferences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from benchfleet.policies.base import Policy, Preference, Work
from benchfleet.runner.resources.shapes import SlotShape
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.lanes import Lane
from benchfleet.runner.scheduler.time_left import seconds_left


class PolicyView:
    """Asks the policy, which sees what waits and which slots serve it."""

    def __init__(
        self, policy: Policy, slots: Slots, backlog: Backlog, now: Callable[[], float]
    ) -> None:
        self._policy, self._slots, self._backlog, self._now = policy, slots, backlog, now
        self._declined: set[tuple[object, ...]] = set()  # slots that it gives nothing now

    def forget(self) -> None:
        """Forget the answers: something was claimed."""
        self._declined.clear()

    def preference(
        self, slot: Slot, shape: SlotShape, fit: Sequence[Lane], vram: int
    ) -> Preference | None:
        """The preference for a slot; the same for equal slots."""
        model = slot.load_key or slot.opened_for
        like = (shape, slot.load_key, model, slot.gpus, vram)
        if like in self._declined:
            return None
        works = self._works(shape, fit, own_model=model)
        preference = self._policy.preference(slot.load_key, works)
        if preference is None:
            self._declined.add(like)
        return preference

    def one_more(
        self,
        shape: SlotShape,
        lanes: Sequence[Lane],
        *,
        starting: Counter[str],
        but: Collection[Lane],
        preference: Preference | None,
    ) -> Lane | None:
        """The lane for one more slot, by the policy or this preference; None for none. Slots that
        start count as serving `starting` cells of each model."""
        open_ = [
            lane
            for lane in lanes
            if lane.work.cells > starting[lane.work.load_key] and lane not in but
        ]
        if not open_:
            return None
        if (
            preference := preference or self._policy.preference("", self._works(shape, open_))
        ) is None:
            return None
        weights = [(preference.weight(lane.work.load_key), lane) for lane in open_]
        allowed = [(weight, lane) for weight, lane in weights if weight is not None]
        return min(allowed, key=lambda one: one[0])[1] if allowed else None

    def _works(self, shape: SlotShape, lanes: Sequence[Lane], *, own_model: str = "") -> list[Work]:
        """What the policy is to see of them; the slot that asks has `own_model` itself."""
        now = self._now()
        for lane in lanes:
            serving = self._slots.index.serving(shape, lane.work.load_key, lane.need)
            lane.work.serving = serving - (lane.work.load_key == own_model)
            lane.work.has_times = self._backlog.estimates.typical is not None
            lane.work.load = self._slots.load_times.seconds(
                lane.work.load_key, now, usual=self._backlog.load(lane)
            )
            lane.work.occupied = self._is_occupied(shape, lane, now)
        return [lane.work for lane in lanes]

    def _is_occupied(self, shape: SlotShape, lane: Lane, now: float) -> bool:
        """Whether all slots that serve the lane are at cells that should outlast a load."""
        work, memory = lane.work, max(lane.need.vram, shape.memory)
        if not (work.serving and work.has_times and work.load):
            return False
        computing = 0
        for slot in self._slots.busy_with(work.load_key):
            if slot.draining or slot.gpus < lane.need.gpus or slot.memory < memory:
                continue
            if slot.display.stage != "benchmark" or not slot.takes(shape):
                continue
            remaining = seconds_left(slot, self._backlog.estimates, now, unknown=0.0)
            if (remaining or 0.0) <= work.load:
                return False
            computing += 1
        return computing >= work.serving
