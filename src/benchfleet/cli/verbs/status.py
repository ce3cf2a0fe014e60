"""``benchfleet status``: how far a campaign is, from its ledger alone."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from functools import partial

from benchfleet.cli.shared import leases, missing_ledger, next_command, options, rent
from benchfleet.cli.text import gate_text, placement_text
from benchfleet.cli.text.notices import memory_text, progress_text, speed_text
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.remote_results import counted_stores
from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.state import STATES
from benchfleet.domain.worker_progress import SlotProgress, clock_text
from benchfleet.reports.spending import in_all, rented
from benchfleet.status import Status, status_of

_RECENT_S = 2.0  # seconds of age that are not shown
_MAX_KEPT_CELLS = 5
Command = Callable[[str], str]  # the command line of another verb on the same cells


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet status study.yaml --json")
    options.choice(parser)


def main(arguments: argparse.Namespace) -> int:
    """Show how many cells are pending, running and done, who runs what, and what failed."""
    study, cells = options.opened(arguments)
    status = status_of(study, cells)
    if not status.has_ledger:
        missing_ledger.warn(arguments, study)
    if arguments.json:
        print_json(status.to_dict())
    else:
        say(*lines(status, partial(next_command.same_choice, arguments)))
        if not (status.has_ledger or arguments.ledger or arguments.results):
            say(missing_ledger.hint(study))
    return 0


def lines(status: Status, command: Command) -> Iterator[str]:
    """The status as text, with the commands that help."""
    counts = [f"{status.counts[state]} {state}" for state in STATES if status.counts[state]]
    counts.insert(0, counted(status.counts["total"], "cell"))
    if status.holders:
        counts.append(progress_text(status.share, status.eta))
    yield f"{status.campaign}: {' · '.join(counts)}"
    yield from _rented(status, command)
    yield from gate_text.lines(status.phases)
    yield from placement_text.lines(status.kept_off, status.notes)
    if took := in_all(status.used):
        yield f"  used     {took}"
    for sentence in rented(status.rentals):
        yield f"  rentals  {sentence}"
    if status.budget is not None:
        yield f"  budget   {status.budget.text}"
    for split in status.split:
        parts = counted(split.parts, "part", "have")
        yield f"  split    {split.path}  {split.ended} of {parts} ended"
    for one in status.holders:
        yield f"  running  {one.record.path}  ({leases.holder_text(one)})"
        if one.progress is not None:
            yield f"           {slot_text(one.progress, one.progress_age)}"
    for host, ahead in status.clocks.items():
        difference = clock_text(ahead, "this machine's")
        yield f"  clock    {host or 'a host'}: its clock is {difference}; use NTP on both"
    for host, age in status.silent.items():
        yield f"no report from {host} for {duration(age)}; if it is off, free its cells:"
        yield f"  {command('release')} --host {shlex.quote(host)}"
    yield from _kept_cells(status, command)
    yield from _failed(status, command)
    yield from _cancelled(status, command)
    for saving in status.race:
        yield f"  race     {saving}"
    yield from _results(status, command)


def _rented(status: Status, command: Command) -> Iterator[str]:
    """The rented machines, which may cost money, and how those that no run returns are returned."""
    for one in status.rented:
        yield f"  rented   {rent.rental_text(one)}"
    orphans = [one for one in status.rented if rent.is_dead_here(one)]
    yield from rent.return_commands(orphans, command)


def slot_text(slot: SlotProgress, age: float) -> str:
    """``31 of 90 samples · 40 s · gpu:0 · 412 tok/s · 31.2/80 GB · 12 s ago``"""
    parts = [
        f"{slot.done} of {slot.total} samples" if slot.total else slot.stage,
        duration(slot.seconds),
        slot.devices,
        speed_text(slot.tokens_per_second),
        memory_text(slot.memory, slot.memory_total),
        f"seen {duration(age)} ago" if age >= _RECENT_S else "",
    ]
    return " · ".join(filter(None, parts))


def _kept_cells(status: Status, command: Command) -> Iterator[str]:
    """The samples of interrupted cells."""
    for path, samples in list(status.kept_samples.items())[:_MAX_KEPT_CELLS]:
        yield f"  pending  {path}  {counted(samples, 'sample')} kept"
    if (more := len(status.kept_samples) - _MAX_KEPT_CELLS) > 0:
        rest = sum(list(status.kept_samples.values())[_MAX_KEPT_CELLS:])
        yield f"           and {counted(more, 'more cell')} with {counted(rest, 'sample')} kept"
    if status.kept_samples and not status.holders:
        yield f"continue after these samples: {command('run')}"


def _failed(status: Status, command: Command) -> Iterator[str]:
    for record in status.failed:
        yield f"  {record.state}  {record.path}  {record.outcome.why if record.outcome else ''}"
    if status.failed:
        failed_only = " --failed" if status.counts["cancelled"] else ""
        yield f"why, and what to do: {command('failures')}"
        yield f"try them again: {command('retry')}{failed_only}"


def _cancelled(status: Status, command: Command) -> Iterator[str]:
    if count := status.counts["cancelled"]:
        them = "it" if count == 1 else "them"
        cells = counted(count, "cell", "are")
        yield f"{cells} cancelled; bring {them} back: {command('retry')} --cancelled"


def _results(status: Status, command: Command) -> Iterator[str]:
    """The results that are not where they belong."""
    for one in status.unpublished:
        then = "the next run puts it at its place"
        if one.blocked:
            then = f"something else lies at its place: {command('verify')}"
        yield f"  waits    {one.path}  done; {then}"
    if status.elsewhere:
        stores = counted_stores(status.elsewhere.values())
        yield f"results that are not here: {stores}; bring them: {command('merge')}"
    for unsent, url in (
        (status.unsent, status.store),
        (status.unsent_to_cache, status.result_cache),
    ):
        if unsent and url:
            yield f"{counted(unsent, 'result', 'wait')} for upload to {url}; the next run does it"
    for path in status.missing:
        yield f"  gone     {path}  done, but its results are not there"
    if status.missing:
        yield f"run them again: {command('retry')} --gone"
