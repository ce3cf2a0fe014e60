"""The options that verbs share, under the same names everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchfleet.campaign.choose import choose
from benchfleet.campaign.load import load_campaign
from benchfleet.domain.cell import Cell
from benchfleet.wiring import Bench, open_bench

CampaignFile = Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="The campaign file.")]
Results = Annotated[
    Path | None, typer.Option("--results", metavar="DIR", help="Keep results here instead.")
]
LedgerUrl = Annotated[
    str,
    typer.Option("--ledger", metavar="URL", help="The ledger, such as sqlite:///path/ledger.db."),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="AXIS=NAME,…", help="Only these, by axis; globs, ! negates."),
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", metavar="AXIS=NAME,…", help="Leave these out.")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="N", help="The first N samples, as cells of their own."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def opened(
    file: Path,
    *,
    results: Path | None = None,
    ledger: str = "",
    only: list[str] | None = None,
    exclude: list[str] | None = None,
    limit: int | None = None,
) -> tuple[Bench, list[Cell]]:
    """The campaign of a file as the options change it, and its chosen cells."""
    campaign = load_campaign(file)
    if results is not None:
        campaign = campaign.with_results(results)
    cells = choose(campaign.matrix.expand(), only=only or (), exclude=exclude or (), limit=limit)
    return open_bench(campaign, ledger=ledger), cells
