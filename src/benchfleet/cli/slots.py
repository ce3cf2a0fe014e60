"""``benchfleet slots``: what a running campaign's slots do, and devices added, drained, removed."""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from benchfleet.bench import Bench, open_bench
from benchfleet.campaign.load import load_campaign
from benchfleet.cli import options
from benchfleet.cli.here import AT_WORK, RunningRunner, only_campaign, runners
from benchfleet.cli.words import duration, printable, shown_path
from benchfleet.domain.event import Event
from benchfleet.domain.slots import (
    ACTIONS,
    ADDED,
    ENDED,
    FREED,
    REMOVED,
    TOLD,
    Answer,
    SlotsOrder,
    SlotState,
    answer_of,
    device_name,
    looks_like_device,
)
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.base import Ledger
from benchfleet.presence.record import runs_here

_PATIENCE = 10.0  # seconds for an answer; a runner looks once a second
_EVERY = 0.1  # seconds between looks at the ledger
_FOLLOWED = (TOLD, FREED, ENDED)  # what is waited for


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
    order = _order(arguments)
    found = load_campaign(arguments.campaign)
    if arguments.results is not None:
        found = found.with_results(arguments.results)
    bench = open_bench(found, ledger=arguments.ledger)
    ledger = bench.existing_ledger()
    if ledger is None:
        return _nobody(arguments, bench, None, order)
    with closing(ledger):
        at_work = runners(ledger.events(kinds=AT_WORK))
        meant = _meant(arguments, order, at_work)
        if not meant:
            return _nobody(arguments, bench, ledger, order)
        asked = {ledger.record(order.event(one.id)): one for one in meant}
        answers = _answers(ledger, asked)
        code = _show(arguments, bench, asked, answers)
        if arguments.wait and code == 0:
            _wait_until_free(ledger, min(asked), meant, order)
        return code


def _order(arguments: argparse.Namespace) -> SlotsOrder:
    """What was asked, with the campaign put in its place. Raises BenchfleetError."""
    words = list(arguments.asked)
    actions = [word for word in words[:2] if word in ACTIONS and not Path(word).is_file()]
    action = actions[0] if actions else "list"
    if actions:
        words.remove(action)
    devices = [word for word in words if looks_like_device(word)]
    others = [word for word in words if word not in devices]
    if len(others) > 1:
        raise BenchfleetError(f"{others[1]!r} is no device; write gpu:3, cpu:0 or lab2/gpu:1")
    if others and "." not in others[0] and not Path(others[0]).exists():
        raise BenchfleetError(
            f"{others[0]!r} is no campaign file, no device and none of {', '.join(ACTIONS)}"
        )
    try:
        names = tuple(map(device_name, devices))
    except ValueError as error:
        raise BenchfleetError(str(error)) from None
    if action == "list" and names:
        shown = " ".join(devices)
        raise BenchfleetError(f"what of {shown}? write: benchfleet slots drain {shown}")
    if action != "list" and not names:
        raise BenchfleetError(f"{action} what? name devices, such as gpu:3 or cpu:0")
    if action in ("list", "add") and (arguments.now or arguments.wait):
        option = "--now" if arguments.now else "--wait"
        raise BenchfleetError(f"{option} goes with drain or remove")
    if others:
        arguments.campaign = Path(others[0])
    else:
        _find_campaign(arguments)
    for known in ("add", "drain", "remove"):
        if action == known:
            return SlotsOrder(action=known, devices=names, now=arguments.now)
    return SlotsOrder(action="list")


def _find_campaign(arguments: argparse.Namespace) -> None:
    """Where none is named, the campaign of the one run that goes on here is meant, with its folder
    and ledger, or the only one in this folder."""
    found = {
        (command["campaign"], command["results"], command["ledger"]): command
        for command in (run.command for run in runs_here() if run.goes_on and run.command)
    }
    if len(found) == 1 and arguments.results is None and not arguments.ledger:
        (command,) = found.values()
        arguments.campaign = shown_path(Path(command["campaign"]))
        arguments.results = Path(command["results"]) if command["results"] else None
        arguments.ledger = command["ledger"]
    else:
        arguments.campaign = only_campaign(Path.cwd())


def _meant(
    arguments: argparse.Namespace, order: SlotsOrder, at_work: Sequence[RunningRunner]
) -> list[RunningRunner]:
    """The runners to ask; a device without a host is of the runner's own machine, and so of this
    one unless a runner is named. Raises BenchfleetError where it is not clear who is meant."""
    listed = ", ".join(f"{one.id[:8]} on {one.machine}" for one in at_work) or "none"
    if arguments.runner:
        found = [one for one in at_work if one.id.startswith(arguments.runner)]
        if not found:
            raise BenchfleetError(
                f"no runner {arguments.runner!r} is at work (it ended); there are: {listed}"
            )
    elif order.action == "list":
        return list(at_work)
    else:
        elsewhere = all(name.host for name in order.devices)
        found = [one for one in at_work if elsewhere or one.is_here]
    if at_work and not found:
        raise BenchfleetError(
            f"no runner of this campaign is on this machine; name one with --runner: {listed}"
        )
    if len(found) > 1 and order.action == "add":
        raise BenchfleetError(f"{len(found)} runners are at work; name one with --runner: {listed}")
    return found


def _nobody(
    arguments: argparse.Namespace, bench: Bench, ledger: Ledger | None, order: SlotsOrder
) -> int:
    """No run is on; a device can be removed from later ones all the same, and given back."""
    name = bench.campaign.name
    start = options.same_choice(arguments, "run")
    kind = {"add": ADDED, "remove": REMOVED}.get(order.action)
    if ledger is not None and kind is not None:
        for device in order.devices:
            machine = "" if device.host else socket.gethostname()
            data = {"runner": "", "machine": machine, "devices": [str(device)]}
            ledger.record(Event(kind=kind, data=data))
    if arguments.json:
        print(json.dumps({"campaign": name, "runners": []}, indent=2))
    elif ledger is not None and kind == REMOVED:
        shown = ", ".join(map(str, order.devices))
        print(printable(f"{name}: no run is on; later ones leave {shown} out until it is added"))
        return 0
    else:
        print(printable(f"{name}: no run is on; start one with: {start}"))
    return 0 if order.action == "list" else 1


def _answers(ledger: Ledger, asked: dict[int, RunningRunner]) -> dict[int, Answer]:
    """What each runner said, by the number of what it was asked."""
    found: dict[int, Answer] = {}

    def all_answered(events: Sequence[Event]) -> bool:
        for event in events:
            if event.kind == TOLD and event.data.get("asked") in asked:
                found[event.data["asked"]] = answer_of(event.data)
        return len(found) == len(asked)

    _follow(ledger, min(asked), all_answered, patience=_PATIENCE)
    return found


def _wait_until_free(
    ledger: Ledger, since: int, meant: Sequence[RunningRunner], order: SlotsOrder
) -> None:
    """Follow the ledger until every runner told that each device is free, or ended."""
    left = {(one.id, str(device)) for one in meant for device in order.devices}

    def all_free(events: Sequence[Event]) -> bool:
        ended = {one.id for one in meant if one.is_gone}
        for event in events:
            if event.kind == FREED:
                for device in event.data["devices"]:
                    left.discard((event.data["runner"], device))
                    print(printable(f"{device} is free"), flush=True)
            elif event.kind == ENDED:
                ended.add(event.data["runner"])
        left.difference_update({one for one in left if one[0] in ended})
        return not left

    _follow(ledger, since, all_free, patience=None)


def _follow(
    ledger: Ledger,
    since: int,
    enough: Callable[[Sequence[Event]], bool],
    *,
    patience: float | None,
) -> None:
    """Look at new events until they are enough, for `patience` seconds at most."""
    until = None if patience is None else time.monotonic() + patience
    every = _EVERY
    while True:
        events = ledger.events(since, kinds=_FOLLOWED)
        since = events[-1].seq if events else since
        if enough(events) or (until is not None and time.monotonic() > until):
            return
        time.sleep(every)
        every = min(1.0, 1.5 * every)


def _show(
    arguments: argparse.Namespace,
    bench: Bench,
    asked: dict[int, RunningRunner],
    answers: dict[int, Answer],
) -> int:
    """Print the answers; 1 where something was refused or nobody answered."""
    refused = any(answer.refused for answer in answers.values())
    code = 1 if refused or len(answers) < len(asked) else 0
    if arguments.json:
        told = [_as_json(one, answers.get(number)) for number, one in asked.items()]
        print(json.dumps({"campaign": bench.campaign.name, "runners": told}, indent=2))
        return code
    for number, one in asked.items():
        answer = answers.get(number)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.began))
        where = "this machine" if one.is_here else one.machine
        print(printable(f"runner {one.id[:8]} on {where}, since {since}"))
        if answer is None:
            print("  does not answer; it is gone, suspended, or cannot reach the ledger")
            continue
        for message in answer.said:
            print(printable(f"  {message}"))
        for message in answer.refused:
            print(printable(f"refused: {message}"), file=sys.stderr)
        if not answer.said and not answer.refused:
            _show_slots(answer.slots)
    return code


def _show_slots(slots: Sequence[SlotState]) -> None:
    width = max((len(slot.devices) for slot in slots), default=0)
    states = max((len(slot.state) for slot in slots), default=0)
    for slot in slots:
        line = f"  {slot.devices:<{width}}  {slot.state:<{states}}  {slot.cell}"
        if slot.total:
            line += f"  {slot.done}/{slot.total}"
        if slot.seconds is not None:
            line += f"  since {duration(slot.seconds)}"
        print(printable(line.rstrip()))


def _as_json(one: RunningRunner, answer: Answer | None) -> dict[str, object]:
    told: dict[str, object] = {
        "runner": one.id,
        "machine": one.machine,
        "began": one.began,
        "answered": answer is not None,
    }
    if answer is not None:
        told["said"], told["refused"] = answer.said, answer.refused
        told["slots"] = [vars(slot) for slot in answer.slots]
    return told
