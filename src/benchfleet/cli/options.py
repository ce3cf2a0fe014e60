"""The options that verbs share, under the same names everywhere."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchfleet.bench import Bench, open_bench
from benchfleet.campaign.choose import choose
from benchfleet.campaign.load import load_campaign
from benchfleet.domain.cell import Cell


def campaign(parser: argparse.ArgumentParser, *, example: str) -> None:
    """The campaign file, where its results and ledger are, and JSON."""
    parser.epilog = f"example: {example}"
    parser.add_argument("campaign", metavar="CAMPAIGN", type=Path, help="the campaign file")
    parser.add_argument("--results", metavar="DIR", type=Path, help="keep results here instead")
    parser.add_argument(
        "--ledger", metavar="URL", default="", help="the ledger, such as sqlite:///path/ledger.db"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def choice(parser: argparse.ArgumentParser) -> None:
    """The part of the campaign that the command is about."""
    parser.add_argument(
        "--only",
        metavar="AXIS=NAME,…",
        action="append",
        default=[],
        help="only these, by axis (models, configs, benchmarks, subsets, repeats); "
        "globs work, ! negates",
    )
    parser.add_argument(
        "--exclude", metavar="AXIS=NAME,…", action="append", default=[], help="leave these out"
    )
    parser.add_argument(
        "--limit", metavar="N", type=count, help="the first N samples only, as cells of their own"
    )


def count(text: str) -> int:
    """A whole number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count; write a whole number from 1")
    return number


def opened(arguments: argparse.Namespace) -> tuple[Bench, list[Cell]]:
    """The campaign as the options change it, and its chosen cells."""
    found = load_campaign(arguments.campaign)
    if arguments.results is not None:
        found = found.with_results(arguments.results)
    cells = choose(
        found.matrix.expand(),
        only=getattr(arguments, "only", ()),
        exclude=getattr(arguments, "exclude", ()),
        limit=getattr(arguments, "limit", None),
    )
    return open_bench(found, ledger=arguments.ledger), cells
