"""Every command that runs on a host, except those of `bootstrap_plan`.

`benchfleet doctor --commands` shows this list to whoever must approve commands beforehand.
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
_LOOK = ALONE + "from pathlib import Path; place = Path(sys.argv[1]); "
_LOOK += "print('have' if place.exists() else 'none', place.absolute())"


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command, with ``<…>`` for what differs from time to time."""

    title: str
    words: tuple[str, ...]


def alive(host: Host) -> list[str]:
    """Whether it still answers."""
    return [host.python, "-c", "pass"]


def facts(host: Host) -> list[str]:
    """It tells of itself."""
    return [host.python, "-c", _FACTS, host.folder]


def sweep(host: Host, slots: Sequence[str]) -> list[str]:
    """End what lives on of these slots."""
    return [host.python, "-c", _SWEEP, *slots]


def launch(host: Host) -> list[str]:
    """Open a slot."""
    return [host.python, "-c", _LAUNCH]


def receive(host: Host, name: str) -> list[str]:
    """Take in a model or files."""
    return [host.python, "-c", _RECEIVE, host.folder, name]


def look(host: Host, place: str) -> list[str]:
    """Whether a model is there."""
    return [host.python, "-c", _LOOK, place]


def probe(host: Host, *, quick: bool = False) -> list[str]:
    """It measures itself."""
    words = ["env", f"BENCHFLEET_HOST={host.name}", host.python, "-m", "benchfleet.cli.main"]
    return [*words, "probe", "--json", "--out", host.folder, *(["--quick"] if quick else [])]


def commands(host: Host, python: str) -> Iterator[Command]:
    """All of them, in the order of a run's life; `python` is the interpreter that it has there."""
    host = replace(host, python=python)
    told = {
        "have it tell of itself": facts(host),
        "end what a slot left that nobody saw end": sweep(host, ["<slot>"]),
        "ask whether it still answers": alive(host),
        "open a slot, which runs cells": launch(host),
        "take in a model or files": receive(host, "<models or files>/<digest>"),
        "take in a model by rsync (its own words)": [
            "rsync",
            "--server",
            "<options>",
            ".",
            "<place>",
        ],
        "look for a model that it has by itself": look(host, "<place>"),
        "have it measure itself (probe)": probe(host),
        "have it measure itself soon (probe --quick)": probe(host, quick=True),
    }
    for title, words in told.items():
        yield Command(title=title, words=tuple(words))
