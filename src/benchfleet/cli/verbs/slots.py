"""``benchfleet slots``: what a running campaign's slots do, and devices added, drained, removed."""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.shared import next_command, options
from benchfleet.cli.shared.slots_command import order_of, target_runners
from benchfleet.cli.text.output import print_json, say
from benchfleet.domain.event import Event
from benchfleet.domain.humanize import duration
from benchfleet.domain.slots import ENDED, FREED, Answer, SlotsCommand, SlotState
from benchfleet.ledger.base import Ledger
from benchfleet.orders.base import Origin, who
from benchfleet.orders.slots import (
    ANSWER_TIMEOUT_S,
    RUNNER_EVENTS,
    RunningRunner,
    await_answers,
    follow,
    leave_out,
    runners,
    send,
)
from benchfleet.orders.slots_history import ORDER_EVENTS, SlotsHistory, SlotsOrder
from benchfleet.study import Study, open_study

_ANSWER_TIMEOUT_S = ANSWER_TIMEOUT_S


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = (
        "examples: benchfleet slots study.yaml\n"
        "          benchfleet slots add gpu:3 gpu:4\n"
        "          benchfleet slots drain lab2/gpu:1 --now\n"
        "add:    use these too, or again\n"
        "drain:  let them go when their cells have ended; cells wait until they are added again\n"
        "remove: drain, and use them no more in this run and later ones, until they are added\n"
        "ends with 0 where all was done, 1 where something was refused or nobody answered"
    )
    parser.add_argument(
        "asked",
        metavar="[add|drain|remove] [CAMPAIGN] [DEVICE …]",
        nargs="*",
        help="what to do; the campaign file (else that of the run that goes on here, or the only "
        "file in this folder); gpu:3, cpu:0 or lab2/gpu:1",
    )
    parser.add_argument(
        "--now",
        action="store_true",
        help="with drain and remove: stop cells after the sample at hand and give them back",
    )
    parser.add_argument(
        "--wait", action="store_true", help="with drain and remove: end when the devices are free"
    )
    parser.add_argument(
        "--runner", metavar="ID", default="", help="the runner that is meant, where there are more"
    )
    options.where(parser)


def main(arguments: argparse.Namespace) -> int:
    """Ask the runners of a campaign, and show what they say."""
    order = order_of(arguments)
    campaign = load_campaign(arguments.campaign).with_results(arguments.results)
    study = open_study(campaign, ledger=arguments.ledger)
    ledger = study.open_existing_ledger(writes=True)
    if ledger is None:
        return _nobody(arguments, study, None, order)
    with closing(ledger):
        at_work = runners(ledger.events(kinds=RUNNER_EVENTS))
        targets = target_runners(arguments, order, at_work)
        if not targets:
            return _nobody(arguments, study, ledger, order)
        origin = Origin(by=who(study))
        requests = {send(ledger, order, one.id, origin): one for one in targets}
        answers = await_answers(ledger, requests, timeout_s=_ANSWER_TIMEOUT_S)
        history = SlotsHistory(ledger.events(kinds=ORDER_EVENTS))
        code = _show(arguments, study, requests, answers, history)
        if arguments.wait and code == 0:
            _wait_until_free(ledger, min(requests), targets, order)
        return code


def _nobody(
    arguments: argparse.Namespace, study: Study, ledger: Ledger | None, order: SlotsCommand
) -> int:
    """No run is on; a device can be removed from later ones all the same, and given back."""
    name, names = study.campaign.name, ", ".join(map(str, order.devices))
    done = f"start one with: {next_command.same_choice(arguments, 'run')}"
    code = 0 if order.action == "list" else 1
    if ledger is not None and order.action in ("add", "remove"):
        machine = socket.gethostname()
        devices = [("" if one.host else machine, one) for one in order.devices]
        again = order.action == "add"
        leave_out(ledger, devices, Origin(by=who(study)), again=again)
        done = f"later ones leave {names} out " + ("no longer" if again else "until it is added")
        code = 0
    if arguments.json:
        print_json({"campaign": name, "runners": []})
    else:
        say(f"{name}: no run is on; {done}")
    return code


def _wait_until_free(
    ledger: Ledger, since: int, targets: Sequence[RunningRunner], order: SlotsCommand
) -> None:
    """Follow the ledger until every runner has reported each device free, or has ended."""
    pending = {(one.id, str(device)) for one in targets for device in order.devices}

    def all_free(events: Sequence[Event]) -> bool:
        ended = {one.id for one in targets if one.is_gone}
        for event in events:
            if event.kind == FREED:
                for device in event.data["devices"]:
                    pending.discard((event.data["runner"], device))
                    say(f"{device} is free", flush=True)
            elif event.kind == ENDED:
                ended.add(event.data["runner"])
        pending.difference_update({one for one in pending if one[0] in ended})
        return not pending

    follow(ledger, since, all_free, timeout_s=None)


def _show(
    arguments: argparse.Namespace,
    study: Study,
    requests: dict[int, RunningRunner],
    answers: dict[int, Answer],
    history: SlotsHistory,
) -> int:
    """Print the answers and the orders without one; 1 where something was refused or nobody
    answered."""
    refused = any(answer.refused for answer in answers.values())
    code = 1 if refused or len(answers) < len(requests) else 0
    if arguments.json:
        runners_json = [
            _as_json(one, answers.get(number), history) for number, one in requests.items()
        ]
        print_json({"campaign": study.campaign.name, "runners": runners_json})
        return code
    for number, one in requests.items():
        answer = answers.get(number)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.began))
        where = "this machine" if one.is_here else one.machine
        say(f"runner {one.id[:8]} on {where}, since {since}")
        if answer is None:
            say("  does not answer; it is gone, suspended, or cannot reach the ledger")
            _show_waiting(history.of(one.id))
            continue
        for message in answer.done:
            say(f"  {message}")
        for message in answer.refused:
            say(f"refused: {message}", to=sys.stderr)
        if not answer.done and not answer.refused:
            _show_slots(answer.slots)
        _show_waiting(history.of(one.id))
    return code


def _show_waiting(orders: Sequence[SlotsOrder]) -> None:
    """Print the orders that the runner has not answered yet."""
    for order in orders:
        if order.answer is None:
            say(f"  {order.sentence()}")


def _show_slots(slots: Sequence[SlotState]) -> None:
    width = max((len(slot.devices) for slot in slots), default=0)
    states = max((len(slot.state) for slot in slots), default=0)
    for slot in slots:
        line = f"  {slot.devices:<{width}}  {slot.state:<{states}}  {slot.cell}"
        if slot.total:
            line += f"  {slot.done}/{slot.total}"
        if slot.seconds is not None:
            line += f"  since {duration(slot.seconds)}"
        say(line.rstrip())


def _as_json(one: RunningRunner, answer: Answer | None, history: SlotsHistory) -> dict[str, object]:
    payload: dict[str, object] = {
        "runner": one.id,
        "machine": one.machine,
        "began": one.began,
        "answered": answer is not None,
        "orders": [order.to_dict() for order in history.of(one.id)],
    }
    if answer is not None:
        payload["said"], payload["refused"] = answer.done, answer.refused
        payload["slots"] = [vars(slot) for slot in answer.slots]
    return payload
