"""``benchfleet status``: how far a campaign is, from its ledger alone."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter

from benchfleet.cli import holding, options, phased, placed, unbegun
from benchfleet.cli.words import printable
from benchfleet.domain.state import STATES
from benchfleet.domain.words import counted
from benchfleet.reports.spending import in_all
from benchfleet.results.outbox import Outbox
from benchfleet.whereabouts import Whereabouts


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.told_campaign(parser, example="benchfleet status study.yaml --json")
    options.choice(parser)


def main(arguments: argparse.Namespace) -> int:
    """Show how many cells are pending, running and done, who runs what, and what failed."""
    bench, cells = options.opened(arguments)
    counts: dict[str, int] = {"total": len(cells), **dict.fromkeys(STATES, 0)}
    records = unbegun.records_of(arguments, bench, cells)
    for record in records:
        counts[record.state] += 1
    holders = holding.holders(bench, records)
    failed = [record for record in records if record.state in ("failed", "partial")]
    where = Whereabouts(bench)
    absent, unpublished = where.absent(records), where.unpublished(records)
    elsewhere = where.elsewhere(absent)
    gone = [record for record in absent if record.fingerprint not in elsewhere]
    unsent = len(Outbox(bench.layout))
    phases = bench.phases(cells, records)
    counts["pending"] = len(cells) - sum(counts[s] for s in STATES if s != "pending")
    used = bench.bill(cells)
    ended = [record.fingerprint for record in records if record.state != "pending"]
    found = placed.placing(bench)
    kept = found.kept_off(placed.waiting(cells, ended))
    if arguments.json:
        told = {
            "campaign": bench.campaign.name,
            **counts,
            "phases": phased.as_json(phases),
            "kept_off": placed.as_json(kept),
            "holders": [one.to_dict() for one in holders],
            "used": used.to_dict(),
            "elsewhere": {
                r.path: elsewhere[r.fingerprint] for r in absent if r.fingerprint in elsewhere
            },
            "unsent": unsent,
            "gone": [record.path for record in gone],
            "unpublished": [record.path for record in unpublished],
            "failures": [
                {"cell": r.path, "state": r.state, "reason": r.outcome.why}
                for r in failed
                if r.outcome and r.outcome.why
            ],
        }
        print(json.dumps(told, indent=2))
        return 0
    shown = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    shown.insert(0, counted(len(cells), "cell"))
    print(printable(f"{bench.campaign.name}: {' · '.join(shown)}"))
    for line in (*phased.lines(phases), *placed.lines(kept, found.notes)):
        print(printable(line))
    if took := in_all(used):
        print(printable(f"  used     {took}"))
    for one in holders:
        print(printable(f"  running  {one.record.path}  ({one})"))
    for record in failed:
        reason = record.outcome.why if record.outcome else ""
        print(printable(f"  {record.state}  {record.path}  {reason}"))
    if failed:
        print(printable(f"why, and the way out: {options.same_choice(arguments, 'failures')}"))
        failed_only = " --failed" if counts["cancelled"] else ""
        again = f"{options.same_choice(arguments, 'retry')}{failed_only}"
        print(printable(f"try them again: {again}"))
    if counts["cancelled"]:
        back = f"{options.same_choice(arguments, 'retry')} --cancelled"
        cancelled = counted(counts["cancelled"], "cell", "are")
        what = "it" if counts["cancelled"] == 1 else "them"
        print(printable(f"{cancelled} cancelled; bring {what} back: {back}"))
    for record in unpublished:
        then = "the next run puts it at its place"
        if os.path.lexists(bench.layout.published(record.path)):
            verify = options.same_choice(arguments, "verify")
            then = f"something else lies at its place: {verify}"
        print(printable(f"  waits    {record.path}  done; {then}"))
    if elsewhere:
        found_at = Counter(elsewhere.values())
        there = ", ".join(f"{count} at {place}" for place, count in sorted(found_at.items()))
        merge = options.same_choice(arguments, "merge")
        print(printable(f"results that are not here: {there}; bring them: {merge}"))
    if unsent:
        print(printable(f"{counted(unsent, 'result', 'wait')} to be put to {bench.campaign.place}"))
    for record in gone:
        print(printable(f"  gone     {record.path}  done, but its results are not there"))
    if gone:
        again = f"{options.same_choice(arguments, 'retry')} --gone"
        print(printable(f"run them again: {again}"))
    return 0
