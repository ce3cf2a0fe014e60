"""Every command that benchfleet runs on a host, to be approved beforehand."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchfleet.campaign.inventory import load_inventory
from benchfleet.cli.shared import options
from benchfleet.cli.shared.fleet import chosen
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import printable
from benchfleet.domain.host import Host
from benchfleet.domain.rent import RentEntry
from benchfleet.engines.commands import REACH, Command, commands
from benchfleet.engines.openssh import destination, quoted
from benchfleet.errors import wrong_option
from benchfleet.machines.bootstrap_plan import EnvironmentSpec, Plan
from benchfleet.machines.facts import ASK
from benchfleet.machines.requirements import constraints
from benchfleet.machines.wheel import interpreter_of, running_wheel
from benchfleet.planner.server_commands import server_commands
from benchfleet.rentals.stage_commands import stage_commands

_NOTE = """\
<…> stands for what differs from time to time. A slot is a Python process that starts itself again,
bound to its devices (python -c …), once more for --trial-gpus, and with the interpreter that a
model names under 'python'. To read its facts a host starts `uname -p`; to measure itself,
`python -m benchfleet.machines.probe.compute`. What bootstrap does with --extra or --wheels:
benchfleet hosts bootstrap {machines} --extra hf --dry-run"""


def show(arguments: argparse.Namespace) -> int:
    """Print the commands of each host of the inventory."""
    if arguments.machines is None:
        raise wrong_option("--commands", "needs hosts: --machines machines.yaml")
    rented = load_inventory(arguments.machines).rent
    hosts = [] if rented and not load_inventory(arguments.machines).hosts else chosen(arguments)
    started = list(_started_by_cells(arguments)) if arguments.campaign else []
    if arguments.json:
        by_host = {host.name: [vars(one) for one in commands_on(host)] for host in hosts}
        by_host |= {one.name: [vars(command) for command in commands_of(one)] for one in rented}
        print_json({"hosts": by_host, "cells": started})
        return 0
    for host in hosts:
        _print(f"{host.name} ({destination(host)})", commands_on(host))
    for entry in rented:
        _print(f"{entry.name} (rented: each machine of this entry)", commands_of(entry))
    if started:
        print("programs that cells of this campaign start inside a slot")
        for line in started:
            say(f"  {line}")
    print(_NOTE.format(machines=printable(str(arguments.machines))))
    return 0


def _print(title: str, of_host: Iterable[Command]) -> None:
    say(title)
    for one in of_host:
        say(f"  # {one.title}")
        for line in quoted(one.words).splitlines():
            say(f"  {line}")


def commands_of(entry: RentEntry) -> Iterator[Command]:
    """Those of a rented machine: of its preparation, and then those of every host."""
    yield from stage_commands(entry)
    host = Host(name=entry.name, address="<address>", python=entry.python)
    yield from commands_on(host, python_for=lambda machine: Path("<archive of Python>.tar.gz"))


def commands_on(host: Host, python_for: Callable[[str], Path] | None = None) -> Iterator[Command]:
    """Those of ``hosts check``, ``hosts bootstrap``, ``probe`` and of runs."""
    python = interpreter_of(host)
    yield Command(title="check the connection", words=REACH)
    yield Command(title="read its facts", words=(python, "-c", ASK, host.folder))
    if not host.python:
        installation = EnvironmentSpec(
            wheel=running_wheel(), constraints=constraints(), python_for=python_for
        )
        plan = Plan(host, installation, python="<python>", token="<digits>")  # noqa: S106
        for step in plan.rehearsed():
            yield Command(title=f"bootstrap: {step.title}", words=step.words)
    yield from commands(host, python)


def _started_by_cells(arguments: argparse.Namespace) -> Iterator[str]:
    """The programs that the campaign declares for its cells."""
    _, cells = options.opened(arguments)
    programs = {}
    for cell in cells:
        params, name = cell.workload.params, cell.workload.name
        if argv := params.get("argv"):
            programs[name] = shlex.join(map(str, argv))
        elif call := params.get("call"):
            programs[name] = f"python {call}"
        if cell.model.python:
            programs[f"model {cell.model.name}"] = f"{cell.model.python} as its slots' interpreter"
    programs |= {f"server of {name}": line for name, line in server_commands(cells).items()}
    yield from (f"{name}: {what}" for name, what in programs.items())
