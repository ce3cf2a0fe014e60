"""``benchfleet fetch``: bring the models and data sets of a campaign to this host, or to others."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, cast

from benchfleet.campaign.inventory import choose_hosts, known_hosts_of, load_inventory
from benchfleet.cli.shared import options
from benchfleet.cli.shared.fleet import on_all
from benchfleet.cli.text.output import print_json, say
from benchfleet.domain.host import Host
from benchfleet.domain.humanize import counted
from benchfleet.download import Download
from benchfleet.engines import commands
from benchfleet.engines.diagnosis import diagnosis
from benchfleet.engines.openssh import LOST, OpenSsh, connections
from benchfleet.errors import wrong_option
from benchfleet.machines.wheel import interpreter_of
from benchfleet.prefetch import FAILED, downloads_of, fetch_all, missing_here


@dataclass
class _HostResult:
    """What came of one host; ``""`` is this one."""

    host: str
    problems: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet fetch study.yaml --machines machines.yaml")
    options.choice(parser)
    parser.add_argument(
        "--machines",
        metavar="FILE",
        type=Path,
        help="fetch on the machines of this inventory, each by itself",
    )
    options.hosts(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="list what is missing on this host, and end"
    )


def main(arguments: argparse.Namespace) -> int:
    """Fetch what the cells read from the network, and say what could not be had."""
    if arguments.hosts and arguments.machines is None:
        raise wrong_option("--hosts", "selects machines of an inventory; add --machines")
    _, cells = options.opened(arguments)
    downloads = downloads_of(cells)
    if arguments.dry_run:
        return _list(downloads, as_json=arguments.json)
    results = _fetched(arguments, downloads)
    if arguments.json:
        print_json([asdict(result) for result in results])
    elif not downloads:
        say("these cells read nothing from the network")
    for result in results if not arguments.json else ():
        if result.problems:
            say(
                f"{result.host or 'this host'}: {counted(len(result.problems), 'problem')}, first: "
                f"{result.problems[0]}"
            )
    return 1 if any(result.problems for result in results) else 0


def _list(downloads: Sequence[Download], *, as_json: bool) -> int:
    missing = missing_here(downloads, os.environ)
    if as_json:
        print_json([asdict(one) for one in missing])
        return 0
    say(*(f"missing: {one}" for one in missing) if missing else ("nothing is missing here",))
    return 0


def _fetched(arguments: argparse.Namespace, downloads: Sequence[Download]) -> list[_HostResult]:
    lock = threading.Lock()

    def tell(result: _HostResult, text: str, width: int = 0) -> None:
        with lock:
            result.lines.append(text)
            if not arguments.json:
                say(f"{result.host:<{width}}  {text}" if width else text, flush=True)

    if arguments.machines is None:
        local = _HostResult(host="")
        local.problems = fetch_all(downloads, os.environ, lambda text: tell(local, text))
        return [local]
    inventory = choose_hosts(load_inventory(arguments.machines), arguments.hosts)
    width = max((len(host.name) for host in inventory.hosts), default=0)
    results = []
    if inventory.local is not None:
        local = _HostResult(host="")
        local.problems = fetch_all(downloads, os.environ, lambda text: tell(local, text, width))
        results.append(local)
    with connections(known_hosts_of(arguments.machines)) as ssh:

        def one(host: Host) -> _HostResult:
            result = _HostResult(host=host.name)
            _fetch_there(host, downloads, ssh, result, lambda text: tell(result, text, width))
            return result

        return [*results, *(on_all(inventory.hosts, one) if inventory.hosts else [])]


def _fetch_there(
    host: Host,
    downloads: Sequence[Download],
    ssh: OpenSsh,
    result: _HostResult,
    tell: Callable[[str], None],
) -> None:
    """Have a host fetch by itself, and take what it says."""
    words = commands.fetch(replace(host, python=interpreter_of(host)))
    pipe = subprocess.PIPE
    with subprocess.Popen(
        ssh.argv(host, words), stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace"
    ) as process:
        stderr: list[str] = []
        reader = threading.Thread(target=lambda: stderr.extend(process.stderr or ()), daemon=True)
        reader.start()
        # A host that cannot be reached takes nothing; its exit code says so.
        with suppress(OSError), cast(IO[str], process.stdin) as stdin:
            stdin.write(json.dumps([one.to_dict() for one in downloads]))
        for line in process.stdout or ():
            tell(line.rstrip())
            if FAILED in line:
                result.problems.append(line.partition("] ")[2].rstrip())
        code = process.wait()
        reader.join()
    if code == LOST:
        result.problems.append(diagnosis(code, "".join(stderr), jump=host.jump).message)
    elif code and not result.problems:
        last = next(
            (line.strip() for line in reversed(stderr) if line.strip()), f"exit code {code}"
        )
        result.problems.append(f"{last}; is this benchfleet there? benchfleet hosts bootstrap")
