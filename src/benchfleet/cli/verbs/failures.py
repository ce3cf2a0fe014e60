"""``benchfleet failures``: what failed and why, grouped, each with what to do."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchfleet.cli.shared import local_runs, missing_ledger, next_command, options, selection
from benchfleet.cli.text import gate_text
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.humanize import counted
from benchfleet.ledger.history import Attempt, attempts_by_cell
from benchfleet.reports.failures import TRUST, FailureGroup, grouped_failures, names_code
from benchfleet.study import Study

MAX_LISTED_CELLS = 3  # cells of a group by name
_MAX_LOG_LINES = 8  # of the log


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    selection.configure(parser, example="benchfleet failures study.yaml --kind oom")


def main(arguments: argparse.Namespace) -> int:
    """Show the failures by stage, kind and message, with every attempt of one cell each."""
    study, cells = options.opened(arguments)
    all_records = missing_ledger.records_of(arguments, study, cells)
    selection.check(arguments, study, all_records)
    records = selection.selected(arguments, all_records)
    groups = grouped_failures(records, cells)
    first = {group.folder.rpartition("/")[2]: group for group in groups}
    phases = study.phases(cells, all_records) if groups and study.campaign.phases else []
    closed = {one.phase.name for one in phases if gate_text.closed(one)}
    phase_of = {str(cell.id): cell.phase for cell in cells if cell.phase in closed}
    by_fingerprint = {str(record.fingerprint): record for record in records}
    attempts = _attempts(study, list(first))
    with_code = set() if arguments.campaign else {str(c.id) for c in cells if names_code(c)}
    like_last = local_runs.like_last_run(arguments, study.layout) if groups else arguments
    groups_json = [
        _group_json(
            like_last,
            study,
            group,
            by_fingerprint[name],
            attempts.get(name, []),
            phase_of,
            trusts=not with_code.isdisjoint(group.cells),
        )
        for name, group in first.items()
    ]
    count = sum(len(group.cells) for group in groups)
    if arguments.json:
        print_json({"campaign": study.campaign.name, "cells": count, "groups": groups_json})
        return 0
    if not groups:
        others = len(grouped_failures(all_records, cells)) > 0
        which = "nothing of this choice failed" if others else "nothing failed"
        say(f"{study.campaign.name}: {which}")
        return 0
    kinds = counted(len(groups), "kind")
    head = f"{study.campaign.name}: {counted(count, 'cell')} without a result, {kinds} of failure"
    say(head)
    for one in groups_json:
        print()
        say(*_lines(one))
    return 0


def _attempts(study: Study, names: Sequence[str]) -> dict[str, list[Attempt]]:
    """The attempts of these cells, as the ledger's history has them."""
    if not names:
        return {}
    return study.query(
        lambda ledger: attempts_by_cell(ledger.events(fingerprints=names)), default={}
    )


def _group_json(
    arguments: argparse.Namespace,
    study: Study,
    group: FailureGroup,
    record: CellRecord,
    attempts: Sequence[Attempt],
    phase_of: Mapping[str, str],
    *,
    trusts: bool,
) -> dict[str, Any]:
    """One group as JSON has it; attempts and log are those of its first cell. `phase_of` has the
    phase of each cell of which the gate is closed."""
    reason = record.outcome.reason if record.outcome else None
    commands = [
        next_command.same_choice(arguments, verb, kinds=kinds, trusts=trusts)
        for verb, kinds in group.verbs
    ]
    closed_phases = dict.fromkeys(phase_of[cell] for cell in group.cells if cell in phase_of)
    return {
        "stage": group.stage,
        "kind": group.kind,
        "message": group.message,
        "count": len(group.cells),
        "cells": list(group.cells),
        "example": record.path,
        "why": record.outcome.why if record.outcome else group.message,
        "attempts": [_attempt(one) for one in attempts],
        "log_tail": reason.log_tail if reason else "",
        "here": (study.layout.root / group.folder).is_dir(),
        "folder": str(display_path(study.layout.root / group.folder)),
        "way_out": group.way_out,
        "command": next_command.joined(arguments, commands, closed_phases),
    }


def _attempt(one: Attempt) -> dict[str, Any]:
    outcome = one.outcome
    failure = outcome.failure if outcome else None
    return {
        "attempt": one.attempt,
        "how": one.how or "running",
        "host": outcome.host if outcome else "",
        "device": outcome.device if outcome else "",
        "failure": str(failure) if failure else "",
        "then": str(outcome.advice) if outcome and outcome.retry_in is not None else "",
    }


def _lines(group: dict[str, Any]) -> Iterator[str]:
    count = group["count"]
    yield f"{group['stage']}: {group['kind']} · {counted(count, 'cell')}"
    yield f"  {group['why'].splitlines()[0]}"
    for cell in group["cells"][:MAX_LISTED_CELLS]:
        yield f"  - {cell}"
    if count > MAX_LISTED_CELLS:
        yield f"  - and {count - MAX_LISTED_CELLS} more"
    yield f"  the attempts of {group['example']}"
    for one in group["attempts"]:
        what = one["failure"].partition("\n")[0] or one["how"]
        if one["failure"] and group["why"].startswith(one["failure"]):
            what = "as above"
        then = f"; then {one['then']}" if one["then"] else ""
        device_text = " ".join(part for part in (one["host"], one["device"]) if part)
        yield f"    {one['attempt']}  {what}{f', on {device_text}' if device_text else ''}{then}"
    if group["log_tail"]:
        host = next((one["host"] for one in reversed(group["attempts"]) if one["host"]), "")
        where = f"in {group['folder']}" if group["here"] or not host else f"on {host}"
        yield f"  the end of its log; all of it is {where}"
        for line in group["log_tail"].splitlines()[-_MAX_LOG_LINES:]:
            yield f"    | {line}"
    yield f"  {group['way_out']}"
    yield f"  then: {group['command']}"
    if "--trust-campaign" in group["command"]:
        yield f"  {TRUST}"
