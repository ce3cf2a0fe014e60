"""``benchfleet verify``: whether every result is there and as it was sealed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from benchfleet.cli.shared import missing_ledger, next_command, options
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.cli.text.progress_line import progress_line
from benchfleet.cli.text.remote_results import elsewhere_lines
from benchfleet.domain.humanize import counted
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.parts import parts_of
from benchfleet.maintenance.repair import MOVED, REPAIRED, Repaired, repair
from benchfleet.results.verify import Finding
from benchfleet.study import Study
from benchfleet.verification import Verification, Verify

_REPAIR = "{repair}"
_FETCHED = f"`{{merge}}` fetches it from {{elsewhere}}; {_REPAIR} keeps this copy as evidence"
_WAYS_OUT = {
    "gone": f"`{{merge}}` brings it where another folder has it; {_REPAIR} runs it again",
    "unpublished": f"the next run puts it there, and so does {_REPAIR}",
    "outdated": f"{_REPAIR} keeps it as evidence and runs the cell again",
    "damaged": f"{_REPAIR} keeps it as evidence and runs the cell again",
    "misplaced": f"{_REPAIR} puts each result where it belongs",
    "foreign": f"{_REPAIR} keeps it as evidence and runs the cell again",
    "occupied": f"move it out of the results folder; {_REPAIR} keeps it as evidence",
    "unknown": "`{rebuild}` takes whole results in; move what is none out of the results folder",
    "link": "put what it leads to there in its stead, or remove it, and verify again",
    "extra": f"{_REPAIR} keeps it as evidence; with it no other folder takes the result",
    "unreadable": "fix the permissions or the disk, then verify again",
    "newer": "use the benchfleet that wrote it",
    "score": "its scorer changed: publish new scores under another version of the benchmark",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet verify study.yaml --repair")
    options.choice(parser)
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument(
        "--quick", action="store_true", help="read each cell.json, and no other file"
    )
    depth.add_argument(
        "--deep", action="store_true", help="also score the answers again, where that can be done"
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="put back what was moved, run again what is damaged or gone; deletes nothing",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before a repair")


def main(arguments: argparse.Namespace) -> int:
    """Look at every result; 1 where something is wrong or missing."""
    study, cells = options.opened(arguments)
    verify = Verify(
        study=study,
        cells=cells,
        whole=not (arguments.only or arguments.exclude or arguments.limit),
        quick=arguments.quick,
        deep=arguments.deep,
    )
    ledger = study.open_existing_ledger(writes=arguments.repair)
    done: list[Repaired] = []
    if ledger is None:
        missing_ledger.warn(arguments, study)
        return _show(arguments, study, verify.run(None), done)
    with closing(ledger):
        verification = _verified(verify, ledger)
        repairable = [one for one in verification.wrong if one.kind in REPAIRED]
        if arguments.repair and repairable and _agreed(arguments, repairable):
            moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
            ours = {str(cell.fingerprint) for cell in study.cells()}
            ours.update(*parts_of(ledger, ours).values())
            wrong = verification.wrong
            done = list(repair(ledger, study.layout, wrong, moment=moment, campaign_cells=ours))
            verification = _verified(verify, ledger)
    return _show(arguments, study, verification, done)


def _verified(verify: Verify, ledger: Ledger) -> Verification:
    with progress_line("results held against their seals") as progress:
        return verify.run(ledger, progress)


def _show(
    arguments: argparse.Namespace,
    study: Study,
    verification: Verification,
    done: Sequence[Repaired],
) -> int:
    if arguments.json:
        print_json(_as_json(arguments, study, verification, done))
    else:
        say(*map(_repair_line, done), *_lines(arguments, study, verification))
    return 0 if verification.is_good else 1


def _agreed(arguments: argparse.Namespace, wrong: Sequence[Finding]) -> bool:
    if arguments.yes:
        return True
    moved = sum(one.kind in MOVED for one in wrong)
    what = f"repair {counted(len(wrong), 'place')} and move {moved} to .evidence"
    rows = [f"  {one.kind}  {one.path}  {one.message}" for one in wrong]
    question = "\n".join([*rows, f"{what}; cells without a result run again?"])
    return confirm(question, otherwise=f"this would {what}; add --yes", ask=not arguments.json)


def _repair_line(one: Repaired) -> str:
    return f"  {one.act}  {one.path}{f'  {one.detail}' if one.detail else ''}"


def _lines(
    arguments: argparse.Namespace, study: Study, verification: Verification
) -> Iterator[str]:
    name = study.campaign.name
    how = "looked over" if arguments.quick else "verified"
    wrong = (
        f"{counted(len(verification.wrong), 'thing')} wrong"
        if verification.wrong
        else "nothing wrong"
    )
    yield f"{name}: {counted(verification.results, 'result')} {how}, {wrong}"
    ways_out: dict[str, list[Finding]] = {}
    for one in verification.wrong:
        ways_out.setdefault(_way_out(arguments, one), []).append(one)
    for way_out, findings in ways_out.items():
        for one in findings:
            yield f"  {one.kind}  {one.path}  {one.message}"
        yield f"    {way_out}"
    for note in _notes(arguments, verification):
        yield f"  note: {note}"
    if verification.missing:
        yield from _missing(arguments, verification)


def _missing(arguments: argparse.Namespace, verification: Verification) -> Iterator[str]:
    """The cells without a good result, and how to get them."""
    counts_text = ", ".join(f"{count} {state}" for state, count in verification.missing.items())
    count = sum(verification.missing.values())
    yield f"{counted(count, 'cell')} without a good result: {counts_text}"
    for axis, names in verification.complete.items():
        if short := {n: c for n, c in names.items() if c[0] < c[1]}:
            incomplete = ", ".join(f"{n} {has} of {all_}" for n, (has, all_) in short.items())
            yield f"  {axis}: {incomplete}"
    if any(state in verification.missing for state in ("pending", "running")):
        yield f"run them: {next_command.same_choice(arguments, 'run')}"
    if any(state in verification.missing for state in ("failed", "partial", "cancelled")):
        yield f"why, and what to do: {next_command.same_choice(arguments, 'failures')}"


def _notes(arguments: argparse.Namespace, verification: Verification) -> list[str]:
    elsewhere = elsewhere_lines(
        arguments, verification.elsewhere.values(), "{results} elsewhere, not looked at"
    )
    return [*elsewhere, *verification.notes]


def _way_out(arguments: argparse.Namespace, finding: Finding) -> str:
    repair = next_command.same_choice(arguments, "verify") + " --repair"
    rebuild = next_command.same_choice(arguments, "ledger rebuild")
    merge = next_command.same_choice(arguments, "merge")
    if finding.elsewhere and "+" not in finding.elsewhere and "://" not in finding.elsewhere:
        merge += " --from …"  # a host's folder is not known here
    return (_FETCHED if finding.elsewhere else _WAYS_OUT[finding.kind]).format(
        repair=f"`{repair}`", rebuild=rebuild, merge=merge, elsewhere=finding.elsewhere
    )


def _as_json(
    arguments: argparse.Namespace,
    study: Study,
    verification: Verification,
    done: Sequence[Repaired],
) -> dict[str, Any]:
    return {
        "campaign": study.campaign.name,
        "results": verification.results,
        "wrong": [
            {**one.to_dict(), "way_out": _way_out(arguments, one)} for one in verification.wrong
        ],
        "repaired": [one.to_dict() for one in done],
        "notes": _notes(arguments, verification),
        "missing": dict(verification.missing),
        "complete": {
            axis: {name: {"good": has, "cells": all_} for name, (has, all_) in names.items()}
            for axis, names in verification.complete.items()
        },
    }
