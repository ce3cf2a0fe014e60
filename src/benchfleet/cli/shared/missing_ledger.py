"""What is said where a campaign has no ledger yet at the place that was named."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from benchfleet.cli.text.output import say
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.study import Study


def message(study: Study) -> str:
    """That there is none, and where else it may be."""
    return (
        f"{study.ledger_text} has no ledger of {study.campaign.name!r}: nothing was run there "
        "yet; was it elsewhere, name that ledger by --ledger, or its results by --results"
    )


def warn(arguments: argparse.Namespace, study: Study) -> None:
    """Say so aside from what is shown, where a place was named: another may have been meant."""
    if arguments.ledger or arguments.results is not None:
        say(f"note: {message(study)}", to=sys.stderr, flush=True)


def records_of(
    arguments: argparse.Namespace, study: Study, cells: Iterable[Cell]
) -> list[CellRecord]:
    """The cells as the ledger has them; of one that is not there it is said, and there are none."""
    records = study.records(cells)
    if not records and not study.has_ledger():
        warn(arguments, study)
    return records
