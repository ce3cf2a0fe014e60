"""``benchfleet run``: run what is not done yet, show it, and end with what won."""

from __future__ import annotations

import json
import signal
import sys
from typing import Annotated, Any

import typer

from benchfleet.cli import options
from benchfleet.cli.summary import write_summary
from benchfleet.runner.inbox import Interrupted, RealInbox
from benchfleet.wiring import choose_pool, run_cells


def run(
    campaign: options.CampaignFile,
    results: options.Results = None,
    ledger: options.LedgerUrl = "",
    gpus: Annotated[
        str | None, typer.Option("--gpus", metavar="0,1", help="Run on these GPUs.")
    ] = None,
    cpu_slots: Annotated[
        int | None, typer.Option("--cpu-slots", min=1, metavar="N", help="Run on N CPU slots.")
    ] = None,
    max_concurrent_runs: Annotated[
        int | None,
        typer.Option("--max-concurrent-runs", min=1, metavar="N", help="Slots over all devices."),
    ] = None,
    only: options.Only = None,
    exclude: options.Exclude = None,
    limit: options.Limit = None,
    as_json: options.AsJson = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Show progress as JSON lines.")
    ] = False,
) -> None:
    """Run the campaign's cells that are not done yet.

    Example: benchfleet run study.yaml --gpus 0,1 --max-concurrent-runs 4
    """
    bench, cells = options.opened(
        campaign, results=results, ledger=ledger, only=only, exclude=exclude, limit=limit
    )
    asked = bench.campaign.machine
    pool = choose_pool(
        _ids(gpus) if gpus is not None else asked.gpus,
        cpu_slots if cpu_slots is not None else asked.cpu_slots,
        max_concurrent_runs if max_concurrent_runs is not None else asked.max_concurrent_runs,
    )
    inbox = RealInbox()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _: inbox.post(Interrupted(signal=signal.Signals(n).name)))
    from benchfleet.cli.watch import watch

    with watch(bench.campaign.name, sys.stderr if as_json else sys.stdout, log_json) as observer:
        end = run_cells(bench, cells, pool, inbox=inbox, observer=observer)
    records = read_records(bench, cells)
    summary = write_summary(bench, records, end)
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        show_end(bench, cells, records, end)
    raise typer.Exit(_exit_code(summary))


def _ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no list of GPU ids; write 0,1", param_hint="--gpus"
        ) from None


def _exit_code(summary: dict[str, Any]) -> int:
    if summary["interrupted"]:
        return 128 + signal.SIGINT
    counts = summary["counts"]
    return 0 if counts["success"] == counts["total"] else 1
