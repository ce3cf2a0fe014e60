"""``benchfleet plan``: the cells of a campaign, what is done, and what each needs."""

from __future__ import annotations

import argparse
import json
from typing import Any

from benchfleet.cli import options
from benchfleet.cli.words import printable
from benchfleet.domain.cell import Cell


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet plan study.yaml --only configs=dense")
    options.choice(parser)


def main(arguments: argparse.Namespace) -> int:
    """Check the campaign and list its cells: what is done, what would run. Runs nothing."""
    bench, cells = options.opened(arguments)
    records = {record.fingerprint: record for record in bench.records(cells)}
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
    if arguments.json:
        print(json.dumps({"campaign": bench.campaign.name, "cells": rows}, indent=2))
        return 0
    done = sum(row["state"] == "success" for row in rows)
    print(printable(f"{bench.campaign.name}: {len(rows)} cells, {done} done → {bench.layout.root}"))
    for row in rows:
        needs = "  ".join(f"{name} {value}" for name, value in row["needs"].items())
        print(printable(f"  {row['state']:<9} {row['cell']}  {needs}".rstrip()))
    return 0


def _needs(cell: Cell) -> dict[str, Any]:
    needs: dict[str, Any] = {}
    if cell.need.gpus:
        needs["gpus"] = cell.need.gpus
    if cell.need.vram:
        needs["vram"] = f"{cell.need.vram / 1e9:g} GB"
    return needs
