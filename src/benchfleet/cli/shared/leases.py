"""Holders of cells as text, and taking cells from them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchfleet.cli.shared import missing_ledger, selection
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.cli.text.terminal import moment
from benchfleet.domain.humanize import counted, duration
from benchfleet.errors import LedgerAbsent
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.lease_holders import Holder
from benchfleet.study import Study


def shown(one: Holder) -> str:
    """``runner 8f3a on lab2, since 14:02, lease good for 40 s``"""
    on = f" on {one.host}" if one.host else ""
    since = f", since {moment(one.since)}" if one.since else ""
    left = one.record.expires_in or 0.0
    lease = f"good for {duration(left)}" if left > 0 else f"ran out {duration(-left)} ago"
    return f"runner {one.record.runner[:8]}{on}{since}, lease {lease}"


def ledger_of(study: Study) -> Ledger:
    """The campaign's ledger. Raises LedgerAbsent where there is none yet."""
    ledger = study.open_existing_ledger()
    if ledger is None:
        raise LedgerAbsent(missing_ledger.message(study))
    return ledger


def tell(
    arguments: argparse.Namespace, study: Study, key: str, given: Sequence[Holder], none: str
) -> None:
    """Print the cells that are pending again, under `key` of the JSON; `none` where none is."""
    if arguments.json:
        told = {"campaign": study.campaign.name, key: [one.to_dict() for one in given]}
        print_json(told)
        return
    for one in given:
        say(f"  pending again  {one.record.path}  (was held by {shown(one)})")
    if not given:
        say(none)


def choose(arguments: argparse.Namespace, found: Sequence[Holder]) -> list[Holder]:
    """Those that --host, --runner and --cell name; all of them where none is said."""
    return [
        one
        for one in found
        if (not arguments.host or one.host in arguments.host)
        and (not arguments.runner or one.record.runner.startswith(tuple(arguments.runner)))
        and selection.named(arguments, one.record)
    ]


def released(ledger: Ledger, meant: Sequence[Holder], reason: str) -> list[Holder]:
    """Give the cells back, no try used up; those that were held still. Their tokens grow, so that
    whoever held them can finish nothing any more."""
    if not meant:
        return []
    ledger.release([one.lease for one in meant], reason)
    among = {str(one.record.fingerprint) for one in meant}
    now = {record.fingerprint: record for record in ledger.cells(fingerprints=among)}
    return [one for one in meant if now[one.record.fingerprint].token != one.record.token]


def agreed(arguments: argparse.Namespace, meant: Sequence[Holder], what: str) -> bool:
    """Whether whoever asks is sure. Raises BenchfleetError where nobody can be asked."""
    if arguments.yes or not meant:
        return True
    lines = "\n".join(f"  {one.record.path}  ({shown(one)})" for one in meant)
    cells = counted(len(meant), "cell")
    otherwise = f"this would {what} {cells}; say --yes\n{lines}"
    return confirm(f"{lines}\n{what} {cells}?", otherwise=otherwise)
