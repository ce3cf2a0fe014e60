"""The message for a campaign that has no ledger at the given address."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from benchfleet.cli.text.output import say
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.study import Study


def message(study: Study) -> str:
    """Say that there is no ledger, and which options may name it."""
    return (
        f"{study.ledger_text} has no ledger of {study.campaign.name!r}: nothing has run there; "
        "if it ran elsewhere, name that ledger with --ledger, or its results with --results"
    )


def warn(arguments: argparse.Namespace, study: Study, *, always: bool = False) -> None:
    """Print the message to stderr, `always` or if an option named the ledger or the results
    folder."""
    if always or arguments.ledger or arguments.results is not None:
        say(f"note: {message(study)}", to=sys.stderr, flush=True)


def hint(study: Study) -> str:
    """Say that the local ledger is not there, where no option named another one."""
    return (
        f"no runs are on record in {study.ledger_text}; "
        "if workers used another ledger, give it: --ledger URL"
    )


def records_of(
    arguments: argparse.Namespace, study: Study, cells: Iterable[Cell], *, always: bool = False
) -> list[CellRecord]:
    """The cells' records; without a ledger there are none, and `warn` is called."""
    records = study.records(cells)
    if not records and not study.has_ledger():
        warn(arguments, study, always=always)
    return records
