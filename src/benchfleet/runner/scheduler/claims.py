"""Claims cells for idle slots, and begins them there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from benchfleet.domain.attempt import Claim
from benchfleet.domain.cell import Cell
from benchfleet.policies.base import Preference
from benchfleet.runner.claim_policy import with_local_definition
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.resources.shapes import SlotShape
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.affordability import Affordability
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.lanes import Lane
from benchfleet.runner.scheduler.oom_advice import OomAdvice
from benchfleet.runner.scheduler.policy_view import PolicyView
from benchfleet.runner.scheduler.reservations import Reservations, serving_order
from benchfleet.runner.scheduler.splitter import SplitDecision

EXTRA_CANDIDATES = 32  # cells that are sent to the ledger beyond those that are wanted
_NO_SLOTS: deque[Slot] = deque()


class LanesChanged(Exception):
    """A waiting cell needs another slot than its lane says, or was split: the dispatcher begins its
    turn again. It is no error."""


@dataclass(frozen=True, kw_only=True)
class ClaimInputs:
    """What the claims of one runner are chosen from."""

    cells: Mapping[str, Cell]  # by fingerprint; all that the runner is about
    backlog: Backlog
    advice: OomAdvice
    reservations: Reservations
    policy_view: PolicyView
    affordability: Affordability


class SlotClaims:
    """Claims the best waiting cells for an idle slot, by policy and reservations."""

    def __init__(
        self,
        context: RunnerContext,
        slots: Slots,
        inputs: ClaimInputs,
        *,
        begin: Callable[[Slot, Claim], None],
        follow: Callable[[], None],
        decide_split: Callable[[Claim], SplitDecision],
    ) -> None:
        self._runner, self._ledger = context.runner, context.ledger
        self._heartbeat, self._slots = context.heartbeat, slots
        self._cells, self._backlog, self._advice = inputs.cells, inputs.backlog, inputs.advice
        self._reservations, self._policy_view = inputs.reservations, inputs.policy_view
        self._affordability = inputs.affordability
        self._begin_attempt, self._follow, self._decide_split = begin, follow, decide_split
        self.exhausted: set[Lane] = set()  # lanes that had fewer cells than slots asked for

    def claim_for(
        self,
        slot: Slot,
        shape: SlotShape,
        lanes: Sequence[Lane],
        *,
        preference: Preference | None = None,
        next_slots: deque[Slot] = _NO_SLOTS,
    ) -> None:
        """Claim a cell for an idle slot, and begin it. There are three cases: the slot's devices
        are reserved for one of these lanes, which gets the slot; they are reserved for a lane that
        is served before these, and only a short cell begins; else the policy chooses, or the
        `preference` if one is given.

        Slots of `next_slots` that would claim the same are served with it, and removed.

        Raises `LanesChanged` if a claimed cell needs another slot.
        """
        vram = self._slots.allocator.free_memory(slot.spec.devices, slot.holds)
        lanes = [
            lane
            for lane in lanes
            if lane.work.cells and lane.need.gpus <= slot.gpus and lane.need.vram <= vram
        ]
        if not lanes:
            return
        slots, reserved = [slot], self._reservations.reserved_lane(slot)
        if reserved in lanes:
            preference = Preference(models={reserved.work.load_key: 0.0}, others=None)
        elif reserved is not None and serving_order(reserved) < min(map(serving_order, lanes)):
            self._begin_claims(slots, self._claim_short(slot, lanes, reserved))
            return
        elif preference is None:
            preference = self._policy_view.preference(slot, shape, lanes, vram)
            if reserved is None and self._affordability.seconds(slot) == inf:
                slots += self._take_equal_slots(slot, lanes, next_slots)
        if preference is None:
            return
        claims = self._claim_best(slot, lanes, preference, len(slots))
        if claims:
            self._policy_view.forget()
        if len(claims) < len(slots):
            self.exhausted.update(lanes)
            # The others claim for themselves next; the slot that asked waits for the next turn.
            next_slots.extendleft(reversed(slots[max(1, len(claims)) :]))
        self._begin_claims(slots, claims)

    def _take_equal_slots(
        self, slot: Slot, lanes: Sequence[Lane], next_slots: deque[Slot]
    ) -> Iterator[Slot]:
        """Remove and yield the next slots that would claim as this one does, one for each further
        cell. There are such slots only if all of them have the one model of these cells loaded."""
        cells = sum(lane.work.cells for lane in lanes)
        loaded = slot.load_key, slot.holds
        if any((lane.work.load_key, lane.need.vram) != loaded for lane in lanes):
            return
        while next_slots and cells > 1 and next_slots[0].is_like(slot):
            if self._reservations.reserved_lane(next_slots[0]) is not None:
                return
            cells -= 1
            yield next_slots.popleft()

    # The ledger decides who gets a cell

    def _claim_short(self, slot: Slot, lanes: Sequence[Lane], reserved: Lane) -> Sequence[Claim]:
        """Claim a cell that should end before the devices of the slot are needed."""
        limit = min(self._reservations.seconds_before(reserved), self._affordability.seconds(slot))
        names = self._backlog.ending_within(limit, slot.load_key, lanes, EXTRA_CANDIDATES)
        return self._claim(names, 1)

    def _claim_best(
        self, slot: Slot, lanes: Sequence[Lane], preference: Preference, limit: int
    ) -> list[Claim]:
        """Claim the best cells of these lanes that the budget has room for. If other runners
        claimed some of them first, read the changes and claim what is best then."""
        claims, before = list[Claim](), list[str]()
        while len(claims) < limit:
            best = self._backlog.candidates(lanes, preference, EXTRA_CANDIDATES + limit)
            candidates = self._affordability.fitting(slot, best, lanes)
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

    # What was claimed begins

    def _begin_claims(self, slots: Sequence[Slot], claims: Sequence[Claim]) -> None:
        """Begin each claim on one of the slots; then `LanesChanged` if one could not begin."""
        misfit = False
        for slot, claimed in zip(slots, claims, strict=False):
            fingerprint = claimed.lease.fingerprint
            claim = with_local_definition(claimed, self._cells[fingerprint])
            if (decision := self._decide_split(claim)) != "begin":
                misfit |= decision == "split"
                continue
            if self._advice.update(fingerprint, claim.advice) and not self._suits(
                slot, fingerprint
            ):
                self._heartbeat.drop(claim.lease)
                self._ledger.release([claim.lease], f"it is to be run {claim.advice}")
                self._backlog.mark_waiting(fingerprint)
                misfit = True
                continue
            self._slots.progress.move(fingerprint, "running")
            if claim.cell.model.python == slot.spec.python:
                self._begin_attempt(slot, claim)
            else:  # it wants another interpreter: a new slot on these devices takes it
                slot.waiting_claim = claim
                self._slots.retire(slot)
        if misfit:
            raise LanesChanged

    def _suits(self, slot: Slot, fingerprint: str) -> bool:
        """Whether the slot has what the ledger's advice asks for."""
        shape = self._advice.shape(fingerprint)
        fits = slot.memory >= shape.memory and slot.alone >= shape.alone
        return fits and not shape.last_resort
