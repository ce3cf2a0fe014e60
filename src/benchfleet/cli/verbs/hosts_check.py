"""``benchfleet hosts check``: whether each host can be used, what it has, and what is missing."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import Any, Literal

from benchfleet.campaign.inventory import known_hosts_of
from benchfleet.cli.shared.fleet import on_all, warn_of_same_machines
from benchfleet.cli.text.output import print_json, print_whole, say
from benchfleet.cli.text.terminal import printable
from benchfleet.domain.host import Host
from benchfleet.domain.humanize import gigabytes
from benchfleet.engines.commands import REACH
from benchfleet.engines.diagnosis import Diagnosis, diagnosis
from benchfleet.engines.openssh import LOST, OpenSsh, connections
from benchfleet.engines.ssh_command import Answer, ask
from benchfleet.errors import DeviceError, ProtocolError
from benchfleet.machines.facts import ASK, Facts, parse_facts
from benchfleet.machines.host_capacity import host_capacity, version_mismatch
from benchfleet.machines.wheel import environment_name, interpreter_of

_COLUMNS = (
    "host",
    "usable",
    "answers",
    "keys",
    "benchfleet",
    "Python",
    "devices",
    "RAM",
    "disk",
)
_NUMBERS = ("answers", "RAM", "disk")
_MAX_CLOCK_SKEW_S = 5.0  # seconds that a clock may be off without a word
_MIN_FREE_DISK_BYTES = 10 * 10**9  # bytes; less is worth a word


@dataclass(frozen=True, kw_only=True)
class HostCheck:
    """The result of checking one host."""

    host: Host
    reached: float | None = None  # seconds until it answered
    facts: Facts | None = None
    offset: float = 0.0  # seconds that its clock is ahead
    trouble: Diagnosis | None = None
    notes: tuple[str, ...] = ()  # remarks that do not prevent its use


def configure(parser: argparse.ArgumentParser) -> None:
    """What the action takes."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace, hosts: Sequence[Host]) -> int:
    """Say of every host whether it can be used, and what it has."""
    with connections(known_hosts_of(arguments.machines)) as ssh:
        checks = on_all(hosts, lambda host: check(host, ssh))
    if arguments.json:
        print_json({"hosts": [_as_json(one) for one in checks]})
    else:
        _show(checks, str(arguments.machines))
    warn_of_same_machines(hosts)
    return 1 if any(one.trouble for one in checks) else 0


def check(
    host: Host, ssh: OpenSsh, *, started: Callable[[subprocess.Popen[bytes]], object] | None = None
) -> HostCheck:
    """Connect to the host and read its facts; `started` is given each process, as `ask` has it."""
    begun = time.monotonic()
    answer = ask(ssh, host, REACH, started=started)
    if answer.code == LOST:
        if host.jump:
            answer = ask(ssh, host, REACH, alone=True, started=started)
        return HostCheck(host=host, trouble=diagnosis(answer.code, answer.err, jump=host.jump))
    reached = time.monotonic() - begun
    asked_at = time.time()
    words = [interpreter_of(host), "-c", ASK, host.folder]
    answer = ask(ssh, host, words, started=started)
    between = (asked_at + time.time()) / 2
    if answer.code != 0:
        return HostCheck(host=host, reached=reached, trouble=_no_facts(host, answer))
    try:
        facts = parse_facts(answer.out)
    except ProtocolError as error:
        trouble = Diagnosis(stage="answer", message=str(error), hopeless=True)
        return HostCheck(host=host, reached=reached, trouble=trouble)
    checked = HostCheck(host=host, reached=reached, facts=facts, offset=facts.clock - between)
    return replace(checked, trouble=_unfit(host, facts), notes=tuple(_notes(checked, facts)))


def _no_facts(host: Host, answer: Answer) -> Diagnosis:
    trouble = diagnosis(answer.code, answer.err, jump=host.jump, python=host.python)
    if trouble.stage == "python" and not host.python:
        message = f"{environment_name()} is not there yet"
        return Diagnosis(stage="benchfleet", message=message, hopeless=True)
    return trouble


def _unfit(host: Host, facts: Facts) -> Diagnosis | None:
    """Why a host that answers cannot be used."""
    if why := version_mismatch(facts):
        return Diagnosis(stage="version", message=why, hopeless=True)
    try:
        host_capacity(host, facts)
    except DeviceError as error:
        stage = "folder" if facts.folder_problem else "devices"
        return Diagnosis(stage=stage, message=str(error), hopeless=True)
    return None


def _notes(checked: HostCheck, facts: Facts) -> Iterator[str]:
    if abs(checked.offset) > _MAX_CLOCK_SKEW_S:
        direction = "ahead" if checked.offset > 0 else "behind"
        yield f"its clock is {abs(checked.offset):.0f} s {direction}"
    if facts.disk_free < _MIN_FREE_DISK_BYTES:
        yield f"only {gigabytes(facts.disk_free)} are free where {checked.host.folder} is"
    if facts.gpu_problem and checked.host.cpu_slots is not None:  # else it is the trouble
        yield f"its GPUs cannot be queried: {facts.gpu_problem}"
    for gpu in facts.gpus:
        if gpu.fault:
            yield f"GPU {gpu.index} cannot be used: {gpu.fault}"
        if gpu.processes and gpu.index in (checked.host.gpus or [gpu.index]):
            yield f"GPU {gpu.index} is in use: {', '.join(gpu.processes)}"


def _as_json(one: HostCheck) -> dict[str, Any]:
    trouble = one.trouble
    return {
        "host": one.host.name,
        "usable": trouble is None,
        "seconds": one.reached,
        "clock_offset": one.offset if one.facts else None,
        "trouble": {"stage": trouble.stage, "message": trouble.message} if trouble else None,
        "notes": list(one.notes),
        "facts": asdict(one.facts) if one.facts else None,
    }


def _show(checks: Sequence[HostCheck], machines: str) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = [[one.host.name, "no" if one.trouble else "yes", *_columns(one)] for one in checks]
    for one, row in zip(checks, rows, strict=True):
        row.insert(3, _keys(one))
    filled = [any(column) for column in zip(*rows, strict=True)]  # leave empty columns out
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in compress(_COLUMNS, filled):
        justify: Literal["left", "right"] = "right" if title in _NUMBERS else "left"
        table.add_column(title, justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(text)) for text in compress(row, filled)))
    print_whole(table)
    for one in checks:
        if one.trouble:
            say(f"{one.host.name}: {one.trouble.stage}: {one.trouble.message}")
        for note in one.notes:
            say(f"{one.host.name}: {note}")
    bare = [
        one.host.name
        for one in checks
        if one.trouble and one.trouble.stage == "benchfleet" and not one.host.python
    ]
    if bare:
        command = ["benchfleet", "hosts", "bootstrap", machines, "--hosts", ",".join(bare)]
        say(f"install it: {shlex.join(command)}")


def _keys(one: HostCheck) -> str:
    """Whether the host's key and ours were good."""
    if one.reached is not None:
        return "good"
    stage = one.trouble.stage if one.trouble else ""
    return {"host key": "host key refused", "permission": "login refused"}.get(stage, "")


def _columns(one: HostCheck) -> list[str]:
    answers = "" if one.reached is None else f"{one.reached:.1f} s"
    facts = one.facts
    if facts is None:
        return [answers, "", "", "", "", ""]
    devices = f"{facts.cores} cores"
    if facts.gpus and one.host.cpu_slots is None:
        names = sorted({gpu.name for gpu in facts.gpus})
        devices = f"{len(facts.gpus)} × {' or '.join(names)}"
    return [
        answers,
        facts.benchfleet,
        facts.python,
        devices,
        gigabytes(facts.memory),
        gigabytes(facts.disk_free),
    ]
