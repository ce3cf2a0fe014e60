"""Every command that runs on a host, except those of `bootstrap_plan`.

`benchfleet doctor --commands` prints this list for an administrator to approve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchfleet.domain.host import Host
from benchfleet.engines.openssh import ALONE

REACH = ("uname", "-sm")
_FACTS = ALONE + "from benchfleet.machines.facts import main; main()"
_SWEEP = ALONE + "from benchfleet.engines.processes import end_tree; "
_SWEEP += "[end_tree(None, slot) for slot in sys.argv[1:]]"
_LAUNCH = ALONE + "from benchfleet.slot.launch import main; main()"
_RECEIVE = (
    ALONE + "from benchfleet.engines.provision_receiver import receive; receive(*sys.argv[1:])"
)
_FETCH = ALONE + "from benchfleet.prefetch import main; main()"
_LOOK = ALONE + "from pathlib import Path; path = Path(sys.argv[1]); "
_LOOK += "print('have' if path.exists() else 'none', path.absolute())"


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command, with ``<…>`` for what differs from time to time."""

    title: str
    words: tuple[str, ...]


def alive(host: Host) -> list[str]:
    """Check that the host still answers."""
    return [host.python, "-c", "pass"]


def facts(host: Host) -> list[str]:
    """Report the host's facts: devices, memory, versions."""
    return [host.python, "-c", _FACTS, host.folder]


def sweep(host: Host, slots: Sequence[str]) -> list[str]:
    """Kill what is left of these slots."""
    return [host.python, "-c", _SWEEP, *slots]


def launch(host: Host) -> list[str]:
    """Open a slot."""
    return [host.python, "-c", _LAUNCH]


def receive(host: Host, name: str) -> list[str]:
    """Receive a model or files."""
    return [host.python, "-c", _RECEIVE, host.folder, name]


def find_model(host: Host, path: str) -> list[str]:
    """Check whether a model is there."""
    return [host.python, "-c", _LOOK, path]


def fetch(host: Host) -> list[str]:
    """Fetch models and data sets from the network."""
    return [host.python, "-c", _FETCH]


def probe(host: Host, *, quick: bool = False) -> list[str]:
    """Measure the host."""
    words = ["env", f"BENCHFLEET_HOST={host.name}", host.python, "-m", "benchfleet.cli.main"]
    return [*words, "probe", "--json", "--out", host.folder, *(["--quick"] if quick else [])]


def commands(host: Host, python: str) -> Iterator[Command]:
    """All of them, in the order of a run's life; `python` is the interpreter that it has there."""
    host = replace(host, python=python)
    listed = {
        "report its facts": facts(host),
        "kill what is left of a lost slot": sweep(host, ["<slot>"]),
        "check that it still answers": alive(host),
        "open a slot, which runs cells": launch(host),
        "fetch models and data sets from the network": fetch(host),
        "receive a model or files": receive(host, "<models or files>/<digest>"),
        "receive a model by rsync (rsync chooses the words)": [
            "rsync",
            "--server",
            "<options>",
            ".",
            "<path>",
        ],
        "look for a model that it has already": find_model(host, "<path>"),
        "measure it (probe)": probe(host),
        "measure it quickly (probe --quick)": probe(host, quick=True),
    }
    for title, words in listed.items():
        yield Command(title=title, words=tuple(words))
