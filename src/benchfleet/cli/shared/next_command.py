"""The command that a user may run next, to be copied."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Sequence

from benchfleet.domain.host import AUTO
from benchfleet.ledger.addresses import display_url

# Verbs that are about the campaign, whatever part of it was chosen; then those that need its file.
_WHOLE = ("gate", "slurm", "return", "sweep-orphans")
_OF_FILE = ("return", "sweep-orphans", "gate check")
_CARING = frozenset({"retry", "failures", "rescore", "cancel"})  # verbs that name cells one by one
DEVICES = ("gpus", "cpu_slots", "slots_per_gpu", "max_concurrent_runs", "share_gpus")


def same_choice(
    arguments: argparse.Namespace,
    verb: str,
    *,
    kinds: Sequence[str] | None = None,
    trusts: bool = False,
) -> str:
    """The command of another verb on the same campaign, folder, ledger and cells, to be copied;
    of cells that failed of these `kinds`, where some are given. A worker without the campaign's
    file `trusts` the code that the ledger names."""
    works = arguments.campaign is None or getattr(arguments, "verb", "") == "work"
    words = ["benchfleet", *("work" if verb == "run" and works else verb).split()]
    words += _same_campaign(arguments, has_file=verb in _OF_FILE)
    if verb == "run" and works:
        words += _repeated(arguments, "models", "assigned")
        trusts = (trusts and arguments.campaign is None) or getattr(
            arguments, "trust_campaign", False
        )
        words += ["--trust-campaign"] if trusts else []
    if verb.split()[0] not in _WHOLE:
        words += _repeated(arguments, "only", "exclude", "limit")
    if verb == "run":
        words += _repeated(arguments, "placement", "engine", "ray_address", "machines", "rent")
        if getattr(arguments, "machines", None) is not None:
            words += _repeated(arguments, "deadline", "hosts")
        words += _repeated(arguments, "budget")
        words += _repeated(arguments, *DEVICES)
        words += _repeated(arguments, "forever") if works else []
    if verb == "sweep-orphans":
        words += _repeated(arguments, "machines")
    if verb in _CARING:
        words += _repeated(arguments, "cell")
        words += _repeated(arguments if kinds is None else argparse.Namespace(kind=kinds), "kind")
    return shlex.join(words)


def joined(
    arguments: argparse.Namespace, commands: Sequence[str], closed_phases: Iterable[str]
) -> str:
    """These commands as one line to be copied; after the first, the closed gates of these phases
    are evaluated again, without which nothing of the later phases would start."""
    first, *others = commands
    return " && ".join((first, *(gate_check(arguments, name) for name in closed_phases), *others))


def gate_check(arguments: argparse.Namespace, phase: str) -> str:
    """The command that evaluates the gate of a phase again."""
    return f"{same_choice(arguments, 'gate check')} {shlex.quote(phase)} --again"


def _same_campaign(arguments: argparse.Namespace, *, has_file: bool) -> Iterator[str]:
    if arguments.campaign is not None or has_file:
        yield str(arguments.campaign or "CAMPAIGN")
    yield from _repeated(arguments, "results")
    if arguments.ledger:
        yield from ("--ledger", display_url(arguments.ledger))
    if arguments.campaign is None and arguments.named and not has_file:
        yield from ("--campaign", arguments.named)


def _repeated(arguments: argparse.Namespace, *names: str) -> Iterator[str]:
    """The options of these names, as they were given."""
    for name in names:
        value = getattr(arguments, name, None)
        option = f"--{name.replace('_', '-')}"
        if value is True or (name == "assigned" and value == ""):
            yield option
        elif name == "gpus" and value:
            yield from (option, ",".join(map(str, value)))
        elif isinstance(value, (list, tuple)):
            for one in value:
                yield from (option, str(one))
        elif value is not None and value is not False and value != "":
            yield from (option, "auto" if value == AUTO else str(value))
