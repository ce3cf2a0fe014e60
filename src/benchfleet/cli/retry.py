"""``benchfleet retry``: give cells that ended badly another chance."""

from __future__ import annotations

import fnmatch
import json
from typing import Annotated

import typer

from benchfleet.cli import options
from benchfleet.cli.words import printable
from benchfleet.domain.event import Event


def retry(
    campaign: options.CampaignFile,
    results: options.Results = None,
    ledger: options.LedgerUrl = "",
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="Only failures of this kind, such as oom.")
    ] = "",
    cell: Annotated[
        str, typer.Option("--cell", metavar="GLOB", help="Only cells whose path matches.")
    ] = "*",
    as_json: options.AsJson = False,
) -> None:
    """Put failed, partial and cancelled cells back to pending; the next run takes them.

    Example: benchfleet retry study.yaml --kind oom
    """
    bench, cells = options.opened(campaign, results=results, ledger=ledger)
    again = []
    book = bench.existing_ledger()
    if book is not None:
        wanted = {each.fingerprint for each in cells}
        for record in list(book.cells(states=["failed", "partial", "cancelled"], among=wanted)):
            failure = record.outcome.failure if record.outcome else None
            if fnmatch.fnmatchcase(record.path, cell) and kind in ("", failure and failure.kind):
                book.record(Event(kind="retry_asked", fingerprint=record.fingerprint))
                again.append(record.path)
        book.close()
    if as_json:
        print(json.dumps({"campaign": bench.campaign.name, "pending_again": again}, indent=2))
        return
    for path in again:
        print(printable(f"  pending again  {path}"))
    print(
        f"{len(again)} cells go again with: benchfleet run {campaign}"
        if again
        else "nothing to retry"
    )
