"""``benchfleet retry``: give cells that ended badly another chance."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from contextlib import closing

from benchfleet.cli.shared import (
    local_runs,
    missing_ledger,
    next_command,
    options,
    sample_retries,
    selection,
)
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.cli.text.terminal import printable
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.phase import GATE_EVENTS, newest_decisions
from benchfleet.domain.state import FINAL_STATES
from benchfleet.errors import wrong_option
from benchfleet.ledger.base import Ledger
from benchfleet.orders import cells as orders
from benchfleet.orders.base import Origin, who
from benchfleet.result_locations import ResultLocator
from benchfleet.study import Study

_MAX_LISTED_CELLS = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    selection.configure(parser, example="benchfleet retry study.yaml --kind oom")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--failed", action="store_true", help="only failed and partial cells")
    which.add_argument(
        "--cancelled", action="store_true", help="only cells that somebody cancelled"
    )
    which.add_argument(
        "--raced", action="store_true", help="only cells that a race stopped; it stops none again"
    )
    which.add_argument(
        "--gone", action="store_true", help="only done cells whose published results are gone"
    )
    which.add_argument(
        "--samples",
        action="store_true",
        help="only done cells with failed samples (limits.sample_errors): ask these samples again",
    )
    parser.add_argument(
        "--lost-host",
        metavar="HOST",
        action="append",
        default=[],
        help="with --gone: also results that only this host has, whose disk is lost; repeatable",
    )
    parser.add_argument("--yes", action="store_true", help="with --gone: do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Put failed, partial and cancelled cells back to pending; the next run takes them. Cells
    that a race stopped stay so without --raced."""
    if arguments.lost_host and not arguments.gone:
        raise wrong_option("--lost-host", "names a host for --gone; add --gone")
    study, cells = options.opened(arguments)
    again: list[str] = []
    raced: list[CellRecord] = []  # stay stopped
    closed: list[str] = []  # phases in which none of them may begin
    records = missing_ledger.records_of(arguments, study, cells)
    selection.check(arguments, study, records)
    ledger = study.open_existing_ledger(writes=True)
    if ledger is not None:
        candidates = _candidates(arguments, study, records)
        with closing(ledger):
            chosen = list(selection.selected(arguments, candidates))
            if not (arguments.gone or arguments.samples or arguments.raced or arguments.failed):
                history = study.race(ledger)
                raced = [*filter(history.is_stopped, selection.selected(arguments, records))]
            if arguments.gone and chosen and not _agreed(arguments, chosen):
                return 1
            if arguments.samples:
                for record in chosen:
                    sample_retries.unpublish(study.layout, record)
            again = orders.retry(ledger, chosen, Origin(by=who(study)))
            closed = _closed_phases(ledger, cells, {record.fingerprint for record in chosen})
    if arguments.json:
        print_json({"campaign": study.campaign.name, "pending_again": again})
        return 0
    for path in again:
        say(f"  pending again  {path}")
    command = next_command.same_choice(local_runs.like_last_run(arguments, study.layout), "run")
    go = f"{counted(len(again), 'cell', 'go')} again with: {command}"
    waiting = len(cells) - sum(record.state in FINAL_STATES for record in records)
    for phase in closed:
        check = next_command.gate_check(arguments, phase)
        say(f"the gate of phase {phase} is closed; before you run, evaluate it again: {check}")
    print(printable(go if again else _nothing(command, waiting)))
    if raced:
        stay = counted(len(raced), "cell", "stay")
        say(f"{stay} stopped by the race; add --raced to run them")
    return 0


def _closed_phases(
    ledger: Ledger, cells: Sequence[Cell], fingerprints: Collection[str]
) -> list[str]:
    """The phases of these cells whose gates are closed."""
    decided = newest_decisions(ledger.events(kinds=GATE_EVENTS))
    phases = dict.fromkeys(cell.phase for cell in cells if cell.fingerprint in fingerprints)
    gates = ((phase, decided.get(phase)) for phase in phases)
    return [phase for phase, gate in gates if gate and gate.state == "closed"]


def _candidates(
    arguments: argparse.Namespace, study: Study, records: Sequence[CellRecord]
) -> Sequence[CellRecord]:
    if arguments.gone:
        locator = ResultLocator(study)
        hosts = (
            {*locator.elsewhere(locator.absent(records)).values()} if arguments.lost_host else ()
        )
        for host in arguments.lost_host:
            if host not in hosts:
                where = f"they are at {', '.join(sorted(hosts))}" if hosts else "none is missing"
                raise wrong_option("--lost-host", f"no missing result is at {host}; {where}")
        return locator.missing(records, lost_hosts=arguments.lost_host)
    if arguments.samples:
        return list(sample_retries.with_failed_samples(study.layout, records))
    history = study.race()
    if arguments.raced:
        return [record for record in records if history.is_stopped(record)]
    chosen = [record for record in records if record.state in _states(arguments)]
    return [record for record in chosen if not history.is_stopped(record)]


def _nothing(command: str, waiting: int) -> str:
    """What to say where no cell failed: a cell whose script changed is a new one, and waits."""
    if not waiting:
        return "nothing to retry"
    return f"nothing to retry; {counted(waiting, 'cell', 'wait')} to run: {command}"


def _agreed(arguments: argparse.Namespace, lost: Sequence[CellRecord]) -> bool:
    """Whether the user wants to run these finished cells again."""
    if arguments.yes:
        return True
    spent = sum(sum(record.outcome.seconds.values()) for record in lost if record.outcome)
    took = f" ({duration(spent)} of work)" if spent else ""
    what = f"run {counted(len(lost), 'finished cell')} again{took}"
    question = "\n".join([*(f"  {record.path}" for record in lost[:_MAX_LISTED_CELLS]), f"{what}?"])
    return confirm(question, otherwise=f"this would {what}; add --yes", ask=not arguments.json)


def _states(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The states of the cells that are meant."""
    failed = () if arguments.cancelled else ("failed", "partial")
    return failed if arguments.failed else (*failed, "cancelled")
