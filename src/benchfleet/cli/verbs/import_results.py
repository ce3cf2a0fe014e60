"""``benchfleet import``: results of other harnesses as those of a campaign's cells."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.shared import options
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.progress_line import progress_line
from benchfleet.cli.text.terminal import display_path
from benchfleet.compat.import_cells import importing, publish_results
from benchfleet.compat.imports.match import match
from benchfleet.compat.imports.read import FORMATS, read_results
from benchfleet.compat.imports.result import ForeignResult, UnreadableResult
from benchfleet.compat.imports.seal import seal, verdict_of
from benchfleet.domain.cell import Cell
from benchfleet.study import open_study

_MAX_LISTED = 20  # results of no cell


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet import study.yaml ./lm-eval-output --dry-run"
    options.campaign(parser, example=example)
    formats = ", ".join(FORMATS)
    parser.add_argument("folder", metavar="DIR", type=Path, help=f"results of {formats}")
    parser.add_argument(
        "--config",
        metavar="NAME",
        default="dense",
        help="the config of results that name none (dense)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the matches; import nothing")


def main(arguments: argparse.Namespace) -> int:
    """Match each result with a cell, and publish it. 1 where a result is of no cell."""
    campaign = load_campaign(arguments.campaign).with_results(arguments.results)
    study = open_study(campaign, ledger=arguments.ledger)
    cells = study.cells()
    results, problems = read_results(arguments.folder)
    matches = match(cells, results, config=arguments.config)
    pairs: list[tuple[Cell, ForeignResult]] = []
    left_out = [*problems, *(f"{result.name}: {why}" for result, why in matches.others)]
    for cell, result in matches.cells:
        try:
            verdict_of(cell, result)
        except UnreadableResult as error:
            left_out.append(str(error))
        else:
            pairs.append((cell, result))
    summary: dict[str, Any] = {"matched": {cell.id: str(one.file) for cell, one in pairs}}
    if pairs and not arguments.dry_run:
        with (
            importing(study, cells) as (ledger, runner),
            progress_line("results imported") as seen,
        ):
            end = publish_results(ledger, study.layout, pairs, seal, runner=runner, seen=seen)
        summary |= {"imported": end.published, "already done": end.already_done}
        summary |= {"busy": [result.name for result in end.busy]}
        summary |= {"results": str(display_path(study.layout.root))}
    summary["left out"] = left_out
    if arguments.json:
        print_json(summary)
    else:
        _show(summary, dry_run=arguments.dry_run)
    return 1 if left_out or summary.get("busy") else 0


def _show(summary: dict[str, Any], *, dry_run: bool) -> None:
    if "imported" in summary:
        counts = f"imported {summary['imported']}, already done {summary['already done']}"
        say(f"{counts}: {summary['results']}")
    elif dry_run:
        say(*(f"{cell}  {file}" for cell, file in summary["matched"].items()))
    say(*(f"run by another runner now: {name}" for name in summary.get("busy", ())))
    left_out = summary["left out"]
    say(*(f"left out: {line}" for line in left_out[:_MAX_LISTED]))
    if len(left_out) > _MAX_LISTED:
        say(f"and {len(left_out) - _MAX_LISTED} more; --json lists all")
