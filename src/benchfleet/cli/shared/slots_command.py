"""What a command line orders of slots, of which campaign, and which runners are meant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from benchfleet.cli.shared.running_campaigns import only_campaign
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.slots import ACTIONS, Action, SlotsCommand, device_name, looks_like_device
from benchfleet.errors import BenchfleetError
from benchfleet.orders.slots import RunningRunner
from benchfleet.runs.registry import active_runs


def order_of(arguments: argparse.Namespace) -> SlotsCommand:
    """What was asked, with the campaign put in its place. Raises BenchfleetError."""
    words = list(arguments.asked)
    action = _take_action(words)
    devices = [word for word in words if looks_like_device(word)]
    others = [word for word in words if word not in devices]
    _check_others(others)
    try:
        names = tuple(map(device_name, devices))
    except ValueError as error:
        raise BenchfleetError(str(error)) from None
    if action == "list" and names:
        names_text = " ".join(devices)
        raise BenchfleetError(f"what of {names_text}? write: benchfleet slots drain {names_text}")
    if action != "list" and not names:
        raise BenchfleetError(f"{action} what? name devices, such as gpu:3 or cpu:0")
    if action in ("list", "add") and (arguments.now or arguments.wait):
        option = "--now" if arguments.now else "--wait"
        raise BenchfleetError(f"{option} goes with drain or remove")
    if others:
        arguments.campaign = Path(others[0])
    else:
        _find_campaign(arguments)
    return SlotsCommand(action=action, devices=names, now=arguments.now)


def _take_action(words: list[str]) -> Action:
    """The action among the first two words, taken out of them; a file of that name is none."""
    for word in words[:2]:
        if word in ACTIONS and not Path(word).is_file():
            words.remove(word)
            return cast(Action, word)
    return "list"


def _check_others(others: Sequence[str]) -> None:
    """Raises BenchfleetError where what is neither action nor device cannot be a campaign."""
    if len(others) > 1:
        raise BenchfleetError(f"invalid device {others[1]!r}: write gpu:3, cpu:0 or lab2/gpu:1")
    if others and "." not in others[0] and not Path(others[0]).exists():
        raise BenchfleetError(
            f"{others[0]!r} is not a file, a device or one of {', '.join(ACTIONS)}"
        )


def _find_campaign(arguments: argparse.Namespace) -> None:
    """Where none is named, the campaign of the one run that goes on here is meant, with its folder
    and ledger, or the only one in this folder."""
    commands = {
        (command["campaign"], command["results"], command["ledger"]): command
        for command in (run.command for run in active_runs() if run.is_running and run.command)
    }
    if len(commands) == 1 and arguments.results is None and not arguments.ledger:
        (command,) = commands.values()
        arguments.campaign = display_path(Path(command["campaign"]))
        arguments.results = Path(command["results"]) if command["results"] else None
        arguments.ledger = command["ledger"]
    else:
        arguments.campaign = only_campaign(Path.cwd())


def target_runners(
    arguments: argparse.Namespace, order: SlotsCommand, at_work: Sequence[RunningRunner]
) -> list[RunningRunner]:
    """The runners to ask; a device without a host is of the runner's own machine, and so of this
    one unless a runner is named. Raises BenchfleetError where it is not clear who is meant."""
    listed = ", ".join(f"{one.id[:8]} on {one.machine}" for one in at_work) or "none"
    if arguments.runner:
        targets = [one for one in at_work if one.id.startswith(arguments.runner)]
        if not targets:
            raise BenchfleetError(
                f"no runner {arguments.runner!r} is at work (it ended); there are: {listed}"
            )
    elif order.action == "list":
        return list(at_work)
    else:
        elsewhere = all(name.host for name in order.devices)
        targets = [one for one in at_work if elsewhere or one.is_here]
    if at_work and not targets:
        raise BenchfleetError(
            f"no runner of this campaign is on this machine; name one with --runner: {listed}"
        )
    if len(targets) > 1 and order.action == "add":
        raise BenchfleetError(
            f"{len(targets)} runners are at work; name one with --runner: {listed}"
        )
    return targets
