"""Selection of cells by axis, failure and name."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
from difflib import get_close_matches

from benchfleet.cli.shared import options
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.failure import KINDS
from benchfleet.domain.name_patterns import matches
from benchfleet.errors import CampaignError, Mistake
from benchfleet.study import Study


def configure(parser: argparse.ArgumentParser, *, example: str) -> None:
    """The campaign, and the part of its cells that is meant."""
    options.optional_campaign(parser, example=example)
    options.choice(parser)
    parser.add_argument(
        "--kind",
        choices=KINDS,
        action="append",
        default=[],
        metavar="KIND",
        help=f"only cells with this failure; repeatable: {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cells whose path or id matches, such as 'tiny/*/recall_512*'; "
        "! negates; repeatable",
    )


def list_cells(arguments: argparse.Namespace) -> str:
    """Says which command lists the cells of the campaign."""
    campaign = shlex.quote(str(arguments.campaign)) if arguments.campaign else "CAMPAIGN"
    return f"list all cells: benchfleet plan {campaign} --cells"


def check(arguments: argparse.Namespace, study: Study, records: Iterable[CellRecord]) -> None:
    """Raises CampaignError for a glob that no cell has, with the near names."""
    if not arguments.cell:
        return
    known_names = dict.fromkeys(
        [*(cell.id for cell in study.cells()), *(record.path for record in records)]
    )
    mistakes = []
    for glob in arguments.cell:
        if not matches([glob.removeprefix("!")], *known_names):
            near = get_close_matches(glob, known_names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else list_cells(arguments)
            message = f"matches no cell by path or id; {hint}"
            mistakes.append(Mistake(key=f"--cell {glob}", message=message))
    if mistakes:
        raise CampaignError("command line", mistakes)


def selected(arguments: argparse.Namespace, records: Iterable[CellRecord]) -> list[CellRecord]:
    """Those of the records that the options name."""
    return [record for record in records if _is_selected(arguments, record)]


def matches_name(arguments: argparse.Namespace, record: CellRecord) -> bool:
    """Whether --cell means it, by path or id; without one it means all."""
    return matches(arguments.cell, record.path, record.id)


def _is_selected(arguments: argparse.Namespace, record: CellRecord) -> bool:
    is_named = matches_name(arguments, record)
    if not is_named or not arguments.kind:
        return is_named
    reason = record.outcome.reason if record.outcome else None
    return reason is not None and reason.kind in arguments.kind
