"""``benchfleet ledger``: care for the ledger itself."""

from __future__ import annotations

import json

import typer

from benchfleet.campaign.load import load_campaign
from benchfleet.cli import options
from benchfleet.runner.rebuild import rebuild as rebuild_ledger
from benchfleet.wiring import open_bench

app = typer.Typer(help="Care for the ledger.", no_args_is_help=True)


@app.callback()
def ledger() -> None:
    """Care for the ledger."""


@app.command("rebuild")
def rebuild(
    campaign: options.CampaignFile,
    results: options.Results = None,
    ledger: options.LedgerUrl = "",
    as_json: options.AsJson = False,
) -> None:
    """Make the ledger again from the published results; a damaged one is kept beside it.

    Example: benchfleet ledger rebuild study.yaml
    """
    found = load_campaign(campaign)
    if results is not None:
        found = found.with_results(results)
    bench = open_bench(found, ledger=ledger)
    moved = bench.set_aside_damaged_ledger()
    book = bench.ledger(known_results=True)
    try:
        told = rebuild_ledger(book, bench.layout)
    finally:
        book.close()
    if as_json:
        print(json.dumps({**told.to_dict(), "damaged": str(moved or "")}, indent=2))
        return
    if moved:
        print(f"the damaged ledger is kept as {moved}")
    print(f"{told.taken} results taken in, {told.known} were known")
    for path, why in told.refused:
        print(f"  left out  {path}: {why}")
