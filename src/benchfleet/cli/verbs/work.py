"""``benchfleet work``: run the cells of a shared ledger that suit this host."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace

from benchfleet.campaign.selection import choose_cells, filter_cells
from benchfleet.cli.shared import checkpoint_watch, options, worker_hours
from benchfleet.cli.shared.assigned_cells import (
    Tasks,
    assigned_cells,
    check_known,
    read_tasks,
    refreshed,
)
from benchfleet.cli.text.output import say
from benchfleet.cli.verbs import run
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.name_patterns import matches
from benchfleet.environment import trusted
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.ledger.addresses import display_url
from benchfleet.runner.claim_policy import ClaimPolicy, VettedCells
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.study import Study

_MAX_LISTED_CELLS = 3  # cells of a kind that are named


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet work --ledger postgresql://me@db.lab/bench --campaign study --forever"
    options.optional_campaign(parser, example=example)
    add_worker_options(parser)
    options.detaching(parser)


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """How a worker goes about it."""
    parser.add_argument(
        "--models", metavar="GLOB,…", default="", help="only cells of these models; ! negates"
    )
    parser.add_argument(
        "--assigned",
        metavar="FILE",
        nargs="?",
        const="",
        help="only what `assign` gave this host, in that order: by the ledger's plan, or this file "
        "(tasks/<hostname>_tasks.json)",
    )
    worker_hours.configure(parser)
    parser.add_argument(
        "--trust-campaign",
        action="store_true",
        help="without a campaign file: also run code that the ledger names",
    )
    run.add_run_options(parser)


def main(arguments: argparse.Namespace) -> int:
    """Run the cells that this host may run, and write what it did."""
    _check_limit(arguments)
    checkpoint_watch.check(arguments)
    study, cells = worker_hours.opened(arguments, run.beside(arguments))
    assigned = _assigned_tasks(arguments, study)
    models = tuple(glob for glob in arguments.models.split(",") if glob)
    skipped = VettedCells(cells=())
    worker = _Worker(
        arguments, study, assigned, ClaimPolicy(models, trusted=_trusts(arguments, study))
    )
    if worker.follows:
        skipped = worker.look()
        cells = worker.cells
    else:
        cells = [cell for cell in cells if matches(models, cell.model.name)]
        cells = run.allowed_here(arguments, study, cells)
    if not cells and worker.follows and not worker_hours.stays(arguments):
        if assigned is not None and not skipped.rejected:
            return _nothing_assigned(arguments, study, assigned)
        if not skipped.rejected:
            raise BenchfleetError(_nothing_there(study))
    _print_skipped(arguments, skipped)
    if not cells and skipped.rejected and not worker_hours.stays(arguments):
        raise BenchfleetError(
            f"{study.campaign.name}: no cell may run here, so nothing was run; change what the "
            "reasons above name, or start a worker on another host"
        )
    devices = options.requested_devices(arguments, study.campaign)
    try:
        worker_options = _worker_options(arguments, worker)
        code = run.begin(arguments, study, cells, devices, worker_options)
        if not worker.follows:  # it has the file, and so the judges
            code = run.run_judges(code, arguments, study, cells, devices, worker_options)
    except KeyboardInterrupt:
        if not arguments.ends_at:
            raise
        return 0  # its batch system's signal came before the first cell, or after the last
    return worker_hours.exit_code(arguments, code)


def _check_limit(arguments: argparse.Namespace) -> None:
    """Raises CampaignError for --limit where it cannot be."""
    if arguments.limit is None:
        return
    message = ""
    if arguments.campaign is None:
        message = "creates separate cells, which needs the campaign's file; name it"
    elif arguments.assigned is not None:
        message = "creates separate cells, which no plan contains; drop --assigned"
    if message:
        raise wrong_option("--limit", message)


def _assigned_tasks(arguments: argparse.Namespace, study: Study) -> Tasks | None:
    """What a plan gives this host, where --assigned asks for it."""
    if arguments.assigned is None:
        return None
    assigned = read_tasks(arguments.assigned, study, stays=worker_hours.stays(arguments))
    if arguments.campaign is not None:
        check_known(assigned, study)
    return assigned


def _worker_options(arguments: argparse.Namespace, worker: _Worker) -> WorkerOptions:
    worker_options = WorkerOptions(
        enrolls=arguments.campaign is not None,
        patient=arguments.assigned is not None,  # its cells may become available later
        stays=worker_hours.stays(arguments),
        seconds=worker_hours.seconds(arguments),
        idle_exit=arguments.idle_exit,
        batch_job=arguments.ends_at is not None,
    )
    if worker.follows:
        worker_options = replace(worker_options, more=worker.more, yielded=worker.yielded)
    return worker_options


class _Worker:
    """The request of a worker whose cells come from the ledger: all of them, or those that a
    plan gives this host."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        study: Study,
        assigned: Tasks | None,
        claim_policy: ClaimPolicy,
    ) -> None:
        self._assigned = assigned
        self._arguments, self._study, self._claim_policy = arguments, study, claim_policy
        self.cells: list[Cell] = []  # all of them, also those that come later
        self._ever: dict[str, Cell] = {}  # those that it was about at any time

    @property
    def follows(self) -> bool:
        """Whether it takes in what others do while it works."""
        return self._arguments.campaign is None or self._assigned is not None

    def look(self) -> VettedCells:
        """Take in what the ledger has and this host takes."""
        if self._assigned is not None:
            self._assigned = refreshed(self._assigned, self._study)
        vetted = self._vet()
        now = {
            str(cell.fingerprint): self._ever.get(cell.fingerprint, cell) for cell in vetted.cells
        }
        if self._assigned is None:
            now = {**self._ever, **now}  # what was enrolled stays
        self._ever = {**self._ever, **now}
        self.cells[:] = now.values()
        return vetted

    def more(self) -> Sequence[Cell]:
        self.look()
        return self.cells

    def yielded(self) -> Collection[str]:
        """The cells that a newer plan gives to others."""
        return self._ever.keys() - {str(cell.fingerprint) for cell in self.cells}

    def _vet(self) -> VettedCells:
        """What there is for it now, in the order of its plan."""
        arguments, assigned = self._arguments, self._assigned
        if assigned is not None and arguments.campaign is not None:
            cells, _ = assigned_cells(assigned, self._study)
            cells = filter_cells(cells, only=arguments.only, exclude=arguments.exclude)
            cells = [cell for cell in cells if self._claim_policy.accepts(cell)]
            allowed = self._study.allowed_here(cells)
            barred = tuple(cell.id for cell in cells if cell not in set(allowed))
            why = f"'runners' excludes {self._study.host}"
            return VettedCells(cells=tuple(allowed), rejected={why: barred} if barred else {})
        vetted = self._claim_policy.sort(self._chosen())
        if assigned is None:
            return vetted
        rank = {name: number for number, name in enumerate(assigned.cells)}
        cells = sorted(vetted.cells, key=lambda cell: rank[cell.fingerprint])
        return replace(vetted, cells=tuple(cells))

    def _chosen(self) -> list[CellRecord]:
        ledger = self._study.open_existing_ledger()
        if ledger is None:
            return []
        with closing(ledger):
            among = None if self._assigned is None else set(self._assigned.cells)
            records = [
                record for record in ledger.cells(fingerprints=among, with_cell=True) if record.cell
            ]
        cells = [record.cell for record in records if record.cell]
        arguments = self._arguments
        pick = choose_cells if self._assigned is None else filter_cells
        chosen = {id(cell) for cell in pick(cells, only=arguments.only, exclude=arguments.exclude)}
        mine = {id(cell) for cell in self._study.allowed_here(cells)}
        return [record for record in records if id(record.cell) in chosen & mine]


def _nothing_assigned(arguments: argparse.Namespace, study: Study, assigned: Tasks) -> int:
    if arguments.json:
        print(json.dumps({"campaign": study.campaign.name, "cells": 0, "given": assigned.by}))
    else:
        say(f"{study.campaign.name}: {assigned.by} assigns nothing to {study.host}")
    return 0


def _trusts(arguments: argparse.Namespace, study: Study) -> bool:
    """Whether somebody here said that code of this campaign's ledger may run."""
    names = {study.campaign.name, _plain(study.url)}
    return arguments.trust_campaign or any(_plain(one) in names for one in trusted(os.environ))


def _plain(url: str) -> str:
    """A ledger's address in one form."""
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "sqlite":
        return os.path.abspath(rest.removeprefix("//"))
    return display_url(url) if colon else url if "/" not in url else os.path.abspath(url)


def _nothing_there(study: Study) -> str:
    return (
        f"{study.ledger_text} has no cell of {study.campaign.name!r} yet: enroll them with "
        "`benchfleet run` or `work CAMPAIGN` where the campaign's file is; --forever waits"
    )


def _print_skipped(arguments: argparse.Namespace, vetted: VettedCells) -> None:
    """Name the cells that this host leaves for others, with the reason."""
    stream = run.beside(arguments)
    for why, ids in vetted.rejected.items():
        some = ", ".join(ids[:_MAX_LISTED_CELLS]) + (", …" if len(ids) > _MAX_LISTED_CELLS else "")
        say(f"left for others: {counted(len(ids), 'cell')} ({some}): {why}", to=stream)
    if any("names code" in why for why in vetted.rejected):
        hint = "give the campaign's file, or --trust-campaign if you trust its author"
        print(f"to run code that the ledger names: {hint}", file=stream)
