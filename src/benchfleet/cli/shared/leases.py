"""Lease holders as text, and releasing their leases."""

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


def holder_text(one: Holder) -> str:
    """``runner 8f3a on lab2, since 14:02, lease good for 40 s``"""
    on = f" on {one.host}" if one.host else ""
    since = f", since {moment(one.since)}" if one.since else ""
    remaining_s = one.record.expires_in or 0.0
    lease = f"good for {duration(remaining_s)}"
    if remaining_s <= 0:
        lease = f"expired {duration(-remaining_s)} ago"
    return f"runner {one.record.runner[:8]}{on}{since}, lease {lease}"


def ledger_of(study: Study) -> Ledger:
    """The campaign's ledger. Raises LedgerAbsent where there is none yet."""
    ledger = study.open_existing_ledger(writes=True)
    if ledger is None:
        raise LedgerAbsent(missing_ledger.message(study))
    return ledger


def print_pending(
    arguments: argparse.Namespace, study: Study, key: str, holders: Sequence[Holder], none: str
) -> None:
    """Print the cells that are pending again, as `key` in JSON; `none` is the text for no cell."""
    if arguments.json:
        payload = {"campaign": study.campaign.name, key: [one.to_dict() for one in holders]}
        print_json(payload)
        return
    for one in holders:
        say(f"  pending again  {one.record.path}  (was held by {holder_text(one)})")
    if not holders:
        say(none)


def choose(arguments: argparse.Namespace, holders: Sequence[Holder]) -> list[Holder]:
    """The holders that --host, --runner and --cell select; all without these options."""
    return [
        one
        for one in holders
        if (not arguments.host or one.host in arguments.host)
        and (not arguments.runner or one.record.runner.startswith(tuple(arguments.runner)))
        and selection.matches_name(arguments, one.record)
    ]


def confirmed(arguments: argparse.Namespace, holders: Sequence[Holder], what: str) -> bool:
    """Ask the user to confirm. Raises BenchfleetError without --yes or a terminal."""
    if arguments.yes or not holders:
        return True
    lines = "\n".join(f"  {one.record.path}  ({holder_text(one)})" for one in holders)
    cells = counted(len(holders), "cell")
    otherwise = f"this would {what} {cells}; add --yes\n{lines}"
    return confirm(f"{lines}\n{what} {cells}?", otherwise=otherwise)
