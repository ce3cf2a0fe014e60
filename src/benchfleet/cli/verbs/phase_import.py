"""``benchfleet phase import``: take over a repository of the earlier tools."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.progress_line import progress_line
from benchfleet.cli.text.terminal import display_path
from benchfleet.compat.import_cells import importing
from benchfleet.compat.legacy_import import campaign_draft, import_results, summarize
from benchfleet.compat.legacy_repository import Entry, Repository, read_repository
from benchfleet.compat.phase_lists import by_result_name
from benchfleet.domain.cell import Cell
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.study import Study, open_study

_DRAFT = "phase_settings.py"


def main(arguments: argparse.Namespace) -> int:
    """Say what the repository holds; publish its results where the campaign says of which cells
    they are, or else write a campaign's file to be completed."""
    folder: Path = arguments.campaign
    repository = read_repository(folder) if folder.is_dir() else None
    if repository is None:
        message = f"{folder} has neither phase/ nor runs/, also not below data/ or results/"
        raise wrong_option("DIR", message)
    summary = summarize(repository)
    if arguments.settings is None:
        summary |= _draft(arguments, repository)
    else:
        summary |= _published(arguments, repository)
    if arguments.json:
        print_json(summary)
    else:
        _show(summary, details=arguments.details)
    return 0


def _draft(arguments: argparse.Namespace, repository: Repository) -> dict[str, Any]:
    """Write a campaign's file of what is known; how one of its runs is run, its owner must say."""
    file = Path(_DRAFT)
    summary = {"next": f"say in {file} how one is run, then: {_again(arguments, file)}"}
    if arguments.dry_run:
        return summary
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(campaign_draft(repository))
    except FileExistsError:
        return {"next": f"{file} is there already; {summary['next']}"}
    return {"written": str(file), **summary}


def _again(arguments: argparse.Namespace, file: Path) -> str:
    return f"benchfleet phase import {arguments.campaign} --settings {file}"


def _published(arguments: argparse.Namespace, repository: Repository) -> dict[str, Any]:
    campaign = load_campaign(arguments.settings).with_results(arguments.results)
    study = open_study(campaign, ledger=arguments.ledger)
    try:
        cells = by_result_name(study.cells())
    except ValueError as error:
        raise BenchfleetError(str(error)) from error
    done = [entry for entry in repository.entries if entry.done]
    pairs = [(cells[entry.name], entry) for entry in done if entry.name in cells]
    summary: dict[str, Any] = {
        "of no cell of the campaign": [entry.name for entry in done if entry.name not in cells]
    }
    if arguments.dry_run:
        return {**summary, "would be published": len(pairs)}
    return {**summary, **_entered(study, list(cells.values()), pairs, repository)}


def _entered(
    study: Study, cells: list[Cell], pairs: list[tuple[Cell, Entry]], repository: Repository
) -> dict[str, Any]:
    source = str(repository.root.resolve())
    with (
        importing(study, cells) as (ledger, runner),
        progress_line("results taken over") as seen,
    ):
        end = import_results(ledger, study.layout, pairs, source=source, runner=runner, seen=seen)
    return {
        "published": end.published,
        "known already": end.already_done,
        "run by somebody now": [entry.name for entry in end.busy],
        "where": str(display_path(study.layout.root)),
    }


def _show(summary: dict[str, Any], *, details: bool) -> None:
    for what, value in summary.items():
        if isinstance(value, list):
            if details and value:
                say(f"{what}: {len(value)}", *(f"  {one}" for one in value))
            elif value:
                more = ", such as" if len(value) > 1 else ":"
                say(f"{what}: {len(value)}{more} {value[0]}")
        elif isinstance(value, dict):
            counts = ", ".join(f"{name} {count}" for name, count in value.items())
            say(f"{what}: {counts or 'none'}")
        else:
            say(f"{what}: {value}")
