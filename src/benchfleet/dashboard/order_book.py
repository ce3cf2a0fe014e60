"""Gives orders to a campaign, each key once, through the layer that the command line uses."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from benchfleet.dashboard.campaigns import ShownCampaign
from benchfleet.dashboard.order_targets import NO_CELL, OrderTarget, RefusedOrder
from benchfleet.dashboard.views.slots import host_of
from benchfleet.domain.humanize import counted
from benchfleet.domain.phase import GATE_EVENTS
from benchfleet.domain.slots import ADDED, REQUESTED, Action, SlotsCommand
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.lease_holders import holders
from benchfleet.ledger.parts import parts_of
from benchfleet.orders import cells, gates, slots
from benchfleet.orders.base import Origin, is_repeated, who
from benchfleet.orders.slots_history import ORDER_EVENTS, SlotsHistory

MAX_KEPT_RECEIPTS = 1_000
_WHY_OVERRIDDEN = "overridden in the dashboard"
_ACTIONS: Mapping[str, Action] = {"drain": "drain", "remove": "remove", "add": "add"}
_EVENTS: Mapping[str, Collection[str]] = {
    "retry": {cells.RETRY},
    "cancel": {cells.CANCEL},
    "release": {"released"},
    "drain": {REQUESTED},
    "remove": {REQUESTED},
    "add": {REQUESTED, ADDED},
    "override": {GATE_EVENTS[0]},
}


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What came of an order."""

    verb: str
    by: str  # a person at a host
    at: float  # seconds since the epoch, by the server's clock
    cells: Sequence[str] = ()  # paths
    orders: Sequence[str] = ()  # to runners, with the time at which each accepted or refused
    answered_at: float | None = None  # seconds since the epoch, by the ledger's clock: the last one
    answers: Sequence[str] = ()  # of runners
    refused: Sequence[str] = ()
    repeated: bool = False  # the key was used before, so nothing happened now


class OrderBook:
    """The orders of a server; one at a time."""

    def __init__(self) -> None:
        self._receipts: OrderedDict[str, Receipt] = OrderedDict()
        self._lock = threading.Lock()

    def give(self, campaign: ShownCampaign, target: OrderTarget, key: str) -> Receipt:
        """Carry out the order, unless one with this key was. Raises LedgerError."""
        with self._lock:
            receipt = self.receipt(key)
            if receipt is None:
                receipt = self._give(campaign, target, Origin(by=who(campaign.study), key=key))
                self._receipts[key] = receipt
                while len(self._receipts) > MAX_KEPT_RECEIPTS:
                    self._receipts.popitem(last=False)
        campaign.watcher.refresh()
        return receipt

    def receipt(self, key: str) -> Receipt | None:
        """What came of the order with this key before; None for a new one."""
        receipt = self._receipts.get(key)
        return replace(receipt, repeated=True) if receipt else None

    def _give(self, campaign: ShownCampaign, target: OrderTarget, origin: Origin) -> Receipt:
        receipt = Receipt(verb=target.verb, by=origin.by, at=time.time())
        if target.verb == "stop":
            stopped = [run.label for run in target.runs if run.request_stop()]
            return replace(receipt, answers=[f"{label}: asked to end" for label in stopped])
        ledger = campaign.study.open_existing_ledger(writes=True)
        if ledger is None:
            raise RefusedOrder("the campaign has not run yet")
        with closing(ledger):
            if is_repeated(ledger, _EVENTS[target.verb], origin):  # before a restart
                return replace(receipt, repeated=True)
            if target.verb in ("retry", "cancel", "release"):
                paths = _act_on_cells(ledger, target, origin)
                return replace(receipt, cells=paths, refused=target.unknown)
            if target.verb == "override":
                gates.override(campaign.study, ledger, target.phase, _WHY_OVERRIDDEN, origin)
                return replace(receipt, answers=[f"the gate of {target.phase} is open"])
            if target.later:
                slots.leave_out(ledger, target.later, origin, again=True)
                names = ", ".join(str(device) for _, device in target.later)
                receipt = replace(receipt, answers=[f"later runs leave {names} out no longer"])
            if not target.devices:
                return receipt
            runners = campaign.watcher.model.fleet.runners
            hosts = {id: host_of(runners.get(id)) for id in target.devices}
            return _ask_runners(ledger, target, origin, receipt, hosts)


def _act_on_cells(ledger: Ledger, target: OrderTarget, origin: Origin) -> Sequence[str]:
    among = {row.fingerprint for row in target.rows}
    if target.verb == "release":
        among.update(*parts_of(ledger, among).values())
        running = ledger.cells(states=["running"], fingerprints=among)
        mine = [one for one in running if target.runner in ("", one.runner)]
        holding = holders(ledger, mine)
        released = cells.release(ledger, holding, origin.reason)
        _check_any(released, target)
        return [one.record.path for one in released]
    records = list(ledger.cells(fingerprints=among))
    if target.verb == "cancel":
        active = [one for one in records if one.state in ("pending", "running")]
        _check_any(active, target)
        return cells.cancel(ledger, active, origin)
    ended = [one for one in records if one.state in ("failed", "partial", "cancelled")]
    _check_any(ended, target)
    return cells.retry(ledger, ended, origin)


def _check_any(chosen: Collection[object], target: OrderTarget) -> None:
    """Raises RefusedOrder where the ledger, which is newer than the page, has nothing to act on."""
    if not chosen:
        raise RefusedOrder(NO_CELL[target.verb])


def _ask_runners(
    ledger: Ledger,
    target: OrderTarget,
    origin: Origin,
    receipt: Receipt,
    hosts: Mapping[str, str],
) -> Receipt:
    requests = {
        slots.send(
            ledger, SlotsCommand(action=_ACTIONS[target.verb], devices=tuple(devices)), id, origin
        )
        for id, devices in target.devices.items()
    }
    answers = slots.await_answers(ledger, requests)
    done = [message for one in answers.values() for message in one.done]
    if missing := len(requests) - len(answers):
        silent = counted(missing, "runner", "have")
        done.append(f"{silent} not answered yet; the page of machines shows when it does")
    refused = [message for one in answers.values() for message in one.refused]
    history = SlotsHistory(ledger.events(min(requests) - 1, kinds=ORDER_EVENTS))
    orders = [one for id in hosts for one in history.of(id) if one.request in requests]
    return replace(
        receipt,
        orders=[one.sentence(hosts[one.runner]) for one in orders],
        answered_at=max((one.answer.at for one in orders if one.answer), default=None),
        answers=[*receipt.answers, *done],
        refused=refused,
    )
