"""``benchfleet rescore``: score again what was answered, without asking the model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing

from benchfleet.cli.shared import next_command, options, selection
from benchfleet.cli.text.output import print_json, say
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.maintenance.rescore import Rescored
from benchfleet.results.reuse import ReusableAnswers
from benchfleet.study import Study
from benchfleet.wiring import rescore


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    selection.configure(parser, example="benchfleet rescore study.yaml --cell 'tiny/*/recall*'")
    parser.add_argument(
        "--all",
        action="store_true",
        help="published cells too: their new score is compared, and the published one stays",
    )


def main(arguments: argparse.Namespace) -> int:
    """Score the cells whose scoring failed; 1 where one cannot be scored or differs."""
    study, cells = options.opened(arguments)
    _enroll_reusable(study, cells)
    records = study.records(cells)
    selection.check(arguments, study, records)
    chosen = [
        record
        for record in selection.selected(arguments, records)
        if _can_be_scored(study, record, everything=arguments.all, named=bool(arguments.cell))
    ]
    rescored = []
    for one in rescore(study, chosen):
        rescored.append(one)
        if not arguments.json:
            say(_line(one), flush=True)
    if arguments.json:
        payload = {"campaign": study.campaign.name, "cells": [_cell_json(one) for one in rescored]}
        print_json(payload)
    elif not rescored:
        print("nothing to score again: no scoring failed (--all compares what is published)")
    else:
        say(_advice(arguments, rescored))
    return 1 if any(one.failure or one.differs for one in rescored) else 0


def _enroll_reusable(study: Study, cells: Sequence[Cell]) -> None:
    """Enroll the cells whose answers another cell has, such as one with other tags of reasoning."""
    known_cells = {record.fingerprint for record in study.records(cells)}
    reusable = ReusableAnswers(study.layout)
    new = [one for one in cells if one.fingerprint not in known_cells and reusable.of(one)]
    ledger = study.open_existing_ledger(writes=True) if new else None
    if ledger is not None:
        with closing(ledger):
            ledger.enroll(new)


def _can_be_scored(study: Study, record: CellRecord, *, everything: bool, named: bool) -> bool:
    if record.state == "success":
        return everything and study.layout.published(record.path).is_dir()
    if record.state == "pending" and not record.outcome:
        cell = {one.fingerprint: one for one in study.cells()}.get(record.fingerprint)
        return cell is not None and bool(ReusableAnswers(study.layout).of(cell))
    outcome = record.outcome
    failures = [outcome.failure, outcome.first] if outcome else []
    in_scoring = any(failure and failure.stage == "collect" for failure in failures)
    return record.state == "partial" and (in_scoring or named)


def _line(one: Rescored) -> str:
    path = one.record.path
    if one.failure is not None and one.record.state == "success":
        return f"– {path}  not scored again: {one.failure}; what is published stays"
    if one.failure is not None:
        return f"✗ {path}  {one.failure}; its answers are kept"
    if one.published is None:
        return f"✓ {path}  {one.score:.3f}"
    if not one.differs:
        return f"= {path}  {one.published:.3f}, as published"
    return (
        f"≠ {path}  {one.score:.3f}, published is {one.published:.3f} "
        f"({counted(one.changed, 'sample', 'differ')}); what is published stays"
    )


def _advice(arguments: argparse.Namespace, rescored: Sequence[Rescored]) -> str:
    if any(one.failure and one.record.state != "success" for one in rescored):
        retry, run = (next_command.same_choice(arguments, verb) for verb in ("retry", "run"))
        return f"ask the model for what is missing, and go on after what is kept: {retry} && {run}"
    return f"look at it with: {next_command.same_choice(arguments, 'report')}"


def _cell_json(one: Rescored) -> dict[str, object]:
    return {
        "cell": one.record.path,
        "score": one.score,
        "published": one.published,
        "differs": one.differs,
        "changed_samples": one.changed,
        "failure": str(one.failure) if one.failure else "",
    }
