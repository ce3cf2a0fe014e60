"""The cells that a verb is to care for, chosen by axis, by failure and by name."""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Iterable

from benchfleet.cli import options
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.failure import KINDS


def configure(parser: argparse.ArgumentParser, *, example: str) -> None:
    """The campaign, and the part of its cells that is meant."""
    options.told_campaign(parser, example=example)
    options.choice(parser)
    parser.add_argument(
        "--kind",
        choices=KINDS,
        action="append",
        default=[],
        metavar="KIND",
        help=f"only cells that failed of this: {', '.join(KINDS)}; may be said again",
    )
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cells whose path or id matches, such as 'tiny/*/recall_512*'; may be said again",
    )


def selected(arguments: argparse.Namespace, records: Iterable[CellRecord]) -> list[CellRecord]:
    """Those of the records that the options name."""
    return [record for record in records if _is_meant(arguments, record)]


def _is_meant(arguments: argparse.Namespace, record: CellRecord) -> bool:
    named = not arguments.cell or any(
        fnmatch.fnmatchcase(name, glob)
        for glob in arguments.cell
        for name in (record.path, record.id)
    )
    if not named or not arguments.kind:
        return named
    reason = record.outcome.reason if record.outcome else None
    return reason is not None and reason.kind in arguments.kind
