"""``benchfleet manifest``: every attempt and every rental in one table."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

from benchfleet.cli.shared import options
from benchfleet.cli.shared.benchmark_report import read_manifest
from benchfleet.cli.text.output import print_json, say
from benchfleet.reports.csv_lines import csv_lines
from benchfleet.reports.manifest import COLUMNS, Row


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet manifest study.yaml --format csv > manifest.csv"
    options.optional_campaign(parser, example=example)
    parser.add_argument(
        "--format", choices=("md", "csv", "json"), default="md", help="of the table (md)"
    )


def main(arguments: argparse.Namespace) -> int:
    """Print the table from the ledger."""
    study, _ = options.opened(arguments)
    ledger = study.open_existing_ledger()
    rows: list[Row] = []
    if ledger is not None:
        with closing(ledger):
            rows = read_manifest(ledger)
    if arguments.json or arguments.format == "json":
        print_json({"manifest": rows})
    elif arguments.format == "csv":
        sys.stdout.writelines(csv_lines(COLUMNS, rows))
    else:
        say(*_markdown(rows))
    return 0


def _markdown(rows: list[Row]) -> list[str]:
    """The columns that have something in them."""
    used = [name for name in COLUMNS if any(row[name] not in (None, "") for row in rows)]
    if not used:
        return ["nothing was run or rented yet"]
    lines = [f"| {' | '.join(used)} |", f"|{'---|' * len(used)}"]
    for row in rows:
        values = ("" if row[name] is None else str(row[name]) for name in used)
        lines.append(f"| {' | '.join(value.replace('|', '/') for value in values)} |")
    return lines
