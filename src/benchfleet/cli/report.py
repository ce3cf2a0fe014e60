"""``benchfleet report``: what won, by how much, and whether it is sure."""

from __future__ import annotations

import argparse
import json

from benchfleet.cli import options
from benchfleet.cli.ending import compared, show
from benchfleet.reports import markdown


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet report study.yaml --format markdown > report.md")
    options.choice(parser)
    parser.add_argument("--baseline", metavar="CONFIG", help="compare with this config")
    parser.add_argument(
        "--format", choices=("terminal", "markdown"), default="terminal", help="how it is drawn"
    )


def main(arguments: argparse.Namespace) -> int:
    """Show model × config for each benchmark, with standard errors and differences."""
    bench, cells = options.opened(arguments)
    comparison = compared(bench, cells, bench.records(cells), arguments.baseline)
    if arguments.json:
        print(json.dumps({"campaign": bench.campaign.name, **comparison.to_dict()}, indent=2))
    elif arguments.format == "markdown":
        print(markdown.render(comparison, title=bench.campaign.name), end="")
    else:
        show(comparison, bench.campaign.name)
    return 0
