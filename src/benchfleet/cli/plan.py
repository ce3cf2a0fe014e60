"""``benchfleet plan``: the cells of a campaign, what is done, and what each needs."""

from __future__ import annotations

import json
from typing import Any

from benchfleet.cli import options
from benchfleet.cli.summary import read_records
from benchfleet.cli.words import printable
from benchfleet.domain.cell import Cell


def plan(
    campaign: options.CampaignFile,
    results: options.Results = None,
    ledger: options.LedgerUrl = "",
    only: options.Only = None,
    exclude: options.Exclude = None,
    limit: options.Limit = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the campaign and list its cells: what is done, what would run. Runs nothing.

    Example: benchfleet plan study.yaml --only configs=dense
    """
    bench, cells = options.opened(
        campaign, results=results, ledger=ledger, only=only, exclude=exclude, limit=limit
    )
    records = {record.fingerprint: record for record in read_records(bench, cells)}
    rows: list[dict[str, Any]] = []
    for cell in cells:
        record = records.get(cell.fingerprint)
        rows.append(
            {
                "cell": record.path if record else cell.id,
                "state": record.state if record else "pending",
                "fingerprint": cell.fingerprint,
                "needs": _needs(cell),
            }
        )
    if as_json:
        print(json.dumps({"campaign": bench.campaign.name, "cells": rows}, indent=2))
        return
    done = sum(row["state"] == "success" for row in rows)
    print(printable(f"{bench.campaign.name}: {len(rows)} cells, {done} done → {bench.layout.root}"))
    for row in rows:
        needs = "  ".join(f"{name} {value}" for name, value in row["needs"].items())
        print(printable(f"  {row['state']:<9} {row['cell']}  {needs}".rstrip()))


def _needs(cell: Cell) -> dict[str, Any]:
    needs: dict[str, Any] = {}
    if cell.need.gpus:
        needs["gpus"] = cell.need.gpus
    if cell.need.vram:
        needs["vram"] = f"{cell.need.vram / 1e9:g} GB"
    return needs
