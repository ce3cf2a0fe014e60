"""``benchfleet logs``: what a cell printed, attempt by attempt; with control characters removed."""

from __future__ import annotations

import argparse
import sys
import tarfile
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from benchfleet.cli.shared import option_types, options
from benchfleet.cli.shared.selection import list_cells
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.part import is_part_id
from benchfleet.domain.state import FINAL_STATES
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.history import Attempt, attempts
from benchfleet.planner.explain import find
from benchfleet.planner.preview import known_records, with_paths
from benchfleet.results.logs import Log, Tail, lines, log_of
from benchfleet.study import Study

_POLL_INTERVAL_S = 0.5  # seconds between two looks at a log that grows


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(
        parser, example="benchfleet logs study.yaml tiny/dense/recall_512 --follow"
    )
    parser.add_argument("cell", metavar="CELL", help="its path, its id, or how its digest begins")
    parser.add_argument(
        "--attempt",
        metavar="N",
        type=option_types.count,
        help="this attempt instead of the last one",
    )
    parser.add_argument(
        "--lines", metavar="N", type=option_types.count, help="only the last N lines of it"
    )
    parser.add_argument(
        "--follow", action="store_true", help="go on as it is written, until the cell has ended"
    )


def main(arguments: argparse.Namespace) -> int:
    """Print the log of one cell; which attempt it is goes to standard error."""
    other = "--json" if arguments.json else "--attempt" if arguments.attempt else ""
    if arguments.follow and other:
        raise BenchfleetError(f"--follow and {other} exclude each other; drop one of them")
    study, cells = options.opened(arguments)
    records = [*known_records(study, cells), *_parts(study, arguments.cell)]
    named = find(
        arguments.cell,
        list(with_paths(cells, records)),
        records,
        key="CELL",
        otherwise=list_cells(arguments),
    )
    ledger = study.open_existing_ledger()
    if ledger is None:
        raise BenchfleetError(f"{named.path} has not started, so it has no log")
    with closing(ledger):
        fingerprint = str(named.cell.fingerprint)
        if arguments.follow:
            return _follow(arguments, study, ledger, fingerprint)
        record, attempts_found = _read_attempts(ledger, fingerprint)
        if record is None or not attempts_found:
            raise BenchfleetError(f"{named.path} has not started, so it has no log")
        attempt = _chosen_attempt(arguments, record, attempts_found)
        log = _log(study, record, attempts_found, attempt)
        if arguments.json:
            print_json(_as_json(arguments, study, record, attempts_found, attempt, log))
            return 0
        _print_headline(record, attempts_found, attempt)
        if log is None:
            raise BenchfleetError(_nowhere(study, record, attempt))
        for line in _text(arguments, log):  # of any length
            say(line)
    return 0


def _parts(study: Study, name: str) -> list[CellRecord]:
    """The parts of split cells, if the name is that of one."""
    if not is_part_id(name):
        return []
    none: list[CellRecord] = []
    records = study.query(lambda one: list(one.cells(with_cell=True, parts=True)), default=none)
    return [record for record in records if is_part_id(record.id)]


def _read_attempts(ledger: Ledger, fingerprint: str) -> tuple[CellRecord | None, list[Attempt]]:
    record = next(iter(ledger.cells(fingerprints={fingerprint})), None)
    return record, attempts(ledger, fingerprint)


def _chosen_attempt(
    arguments: argparse.Namespace, record: CellRecord, attempts_found: Sequence[Attempt]
) -> Attempt:
    if arguments.attempt is None:
        return attempts_found[-1]
    for one in attempts_found:
        if one.attempt == arguments.attempt:
            return one
    numbers = ", ".join(str(one.attempt) for one in attempts_found)
    raise BenchfleetError(f"{record.path} has no attempt {arguments.attempt}; it has {numbers}")


def _log(
    study: Study, record: CellRecord, attempts_found: Sequence[Attempt], attempt: Attempt
) -> Log | None:
    name = f"{attempt.attempt}-{attempt.token}"
    return log_of(study.layout, record, name, last=attempt is attempts_found[-1])


def _text(arguments: argparse.Namespace, log: Log) -> Iterable[str]:
    try:
        log_lines = lines(log.pieces())
        yield from deque(log_lines, arguments.lines) if arguments.lines else log_lines
    except (OSError, tarfile.TarError, KeyError) as error:
        raise BenchfleetError(f"{log.file} cannot be read: {error}") from error


def _nowhere(study: Study, record: CellRecord, attempt: Attempt) -> str:
    where = display_path(study.layout.root)
    return (
        f"the log of attempt {attempt.attempt} of {record.path} is not in {where}: it is on the "
        "machine that ran the attempt, or was deleted"
    )


def _print_headline(
    record: CellRecord, attempts_found: Sequence[Attempt], attempt: Attempt
) -> None:
    """Which attempt it is, aside from the log itself."""
    say(_headline(record, attempts_found, attempt), to=sys.stderr, flush=True)


def _headline(record: CellRecord, attempts_found: Sequence[Attempt], attempt: Attempt) -> str:
    outcome = attempt.outcome
    how = outcome.state if outcome else attempt.how or "running"
    device_text = (
        " ".join(part for part in (outcome.host, outcome.device) if part) if outcome else ""
    )
    on = f" on {device_text}" if device_text else ""
    return f"{record.path}  attempt {attempt.attempt} of {attempts_found[-1].attempt}, {how}{on}"


def _follow(arguments: argparse.Namespace, study: Study, ledger: Ledger, fingerprint: str) -> int:
    """Print the last attempt's log and what comes, attempt after attempt, until the cell ends."""
    current: Attempt | None = None
    tail = Tail()
    while True:
        record, attempts_found = _read_attempts(ledger, fingerprint)
        ended = record is None or record.state in FINAL_STATES
        if record is not None and attempts_found:
            if current is None or current.token != attempts_found[-1].token:
                if current is not None:  # what it said last
                    _print_new(arguments, study, record, attempts_found, current, tail, last=True)
                current, tail = attempts_found[-1], Tail()
                _print_headline(record, attempts_found, current)
            _print_new(
                arguments, study, record, attempts_found, attempts_found[-1], tail, last=ended
            )
        if ended:
            return 0
        time.sleep(_POLL_INTERVAL_S)


def _print_new(
    arguments: argparse.Namespace,
    study: Study,
    record: CellRecord,
    attempts_found: Sequence[Attempt],
    attempt: Attempt,
    tail: Tail,
    *,
    last: bool,
) -> None:
    log = _log(study, record, attempts_found, attempt)
    if log is None:
        return
    try:
        new_lines = tail.new_lines(log, last=last)
    except FileNotFoundError:
        return  # it moves to its place just now
    for line in new_lines[-arguments.lines :] if arguments.lines else new_lines:
        say(line, flush=True)
    arguments.lines = None  # of what was there at first


def _as_json(
    arguments: argparse.Namespace,
    study: Study,
    record: CellRecord,
    attempts_found: Sequence[Attempt],
    attempt: Attempt,
    log: Log | None,
) -> dict[str, Any]:
    return {
        "cell": record.path,
        "state": record.state,
        "attempts": [
            {
                "attempt": one.attempt,
                "how": one.outcome.state if one.outcome else one.how or "running",
                "log": str(at.file) if (at := _log(study, record, attempts_found, one)) else "",
            }
            for one in attempts_found
        ],
        "attempt": attempt.attempt,
        "log": str(log.file) if log else "",
        "text": "\n".join(_text(arguments, log)) if log else "",
    }
