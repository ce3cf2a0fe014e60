"""``benchfleet work``: run what this host may of a shared ledger, until nothing is left."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace

from benchfleet.campaign.selection import choose_cells, filter_cells
from benchfleet.cli.shared import option_types, options
from benchfleet.cli.shared.assigned_cells import (
    Tasks,
    assigned_cells,
    check_known,
    newer,
    read_tasks,
)
from benchfleet.cli.text.output import say
from benchfleet.cli.verbs import run
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.environment import trusted
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.ledger.addresses import display_url
from benchfleet.runner.claim_policy import ClaimPolicy, VettedCells, allowed
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.study import Study

_SHOWN = 3  # cells of a kind that are named


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet work --ledger postgresql://me@db.lab/bench --campaign study --forever"
    options.optional_campaign(parser, example=example)
    course(parser)
    options.detaching(parser)


def course(parser: argparse.ArgumentParser) -> None:
    """How a worker goes about it."""
    parser.add_argument(
        "--models", metavar="GLOB,…", default="", help="only cells of these models, by name"
    )
    parser.add_argument(
        "--assigned",
        metavar="FILE",
        nargs="?",
        const="",
        help="only what `assign` gave this host, in its order: by the ledger's plan, or this file "
        "(tasks/<hostname>_tasks.json)",
    )
    parser.add_argument(
        "--forever", action="store_true", help="stay where nothing is left, and look for new cells"
    )
    parser.add_argument(
        "--max-hours",
        metavar="H",
        type=option_types.number(24 * 365, "time; write hours, such as 3.5"),
        help="end after this time; begin nothing that should take longer",
    )
    parser.add_argument(
        "--trust-campaign",
        action="store_true",
        help="without a campaign file: run code that the ledger names, too",
    )
    run.course(parser)


def main(arguments: argparse.Namespace) -> int:
    """Run the cells that this host may run, and write what it did."""
    _check_limit(arguments)
    study, cells = options.opened(arguments)
    given = _given(arguments, study)
    models = tuple(glob for glob in arguments.models.split(",") if glob)
    left = VettedCells(cells=())
    worker = _Worker(
        arguments, study, given, ClaimPolicy(models, trusted=_trusts(arguments, study))
    )
    if worker.follows:
        left = worker.look()
        cells = worker.cells
    else:
        cells = [cell for cell in cells if allowed(cell, models)]
        cells = run.allowed_here(arguments, study, cells)
    if not cells and worker.follows and not arguments.forever:
        if given is not None and not left.rejected:
            return _nothing_given(arguments, study, given)
        if not left.rejected:
            raise BenchfleetError(_nothing_there(study))
    _tell_left(arguments, left)
    devices = options.requested_devices(arguments, study.campaign)
    return run.begin(arguments, study, cells, devices, _worker_options(arguments, worker))


def _check_limit(arguments: argparse.Namespace) -> None:
    """Raises CampaignError for --limit where it cannot be."""
    if arguments.limit is None:
        return
    message = ""
    if arguments.campaign is None:
        message = "makes cells of their own, which takes the campaign's file; name it"
    elif arguments.assigned is not None:
        message = "makes cells of their own, which no plan gives to anybody; leave --assigned out"
    if message:
        raise wrong_option("--limit", message)


def _given(arguments: argparse.Namespace, study: Study) -> Tasks | None:
    """What a plan gives this host, where --assigned asks for it."""
    if arguments.assigned is None:
        return None
    given = read_tasks(arguments.assigned, study, stays=arguments.forever)
    if arguments.campaign is not None:
        check_known(given, study)
    return given


def _worker_options(arguments: argparse.Namespace, worker: _Worker) -> WorkerOptions:
    worker_options = WorkerOptions(
        enrolls=arguments.campaign is not None,
        patient=arguments.assigned is not None,  # what it waits for may begin later
        stays=arguments.forever,
        seconds=arguments.max_hours and 3600 * arguments.max_hours,
    )
    if worker.follows:
        worker_options = replace(worker_options, more=worker.more, yielded=worker.yielded)
    return worker_options


class _Worker:
    """What a worker is about whose cells the ledger tells of: all that are there, or those that a
    plan gives this host."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        study: Study,
        given: Tasks | None,
        claim_policy: ClaimPolicy,
    ) -> None:
        self._given = given
        self._arguments, self._bench, self._claim_policy = arguments, study, claim_policy
        self.cells: list[Cell] = []  # all of them, also those that come later
        self._ever: dict[str, Cell] = {}  # those that it was about at any time

    @property
    def follows(self) -> bool:
        """Whether it takes in what others do while it works."""
        return self._arguments.campaign is None or self._given is not None

    def look(self) -> VettedCells:
        """Take in what the ledger has and this host takes."""
        if self._given is not None:
            self._given = newer(self._given, self._bench)
        found = self._found()
        now = {
            str(cell.fingerprint): self._ever.get(cell.fingerprint, cell) for cell in found.cells
        }
        if self._given is None:
            now = {**self._ever, **now}  # what was enrolled stays
        self._ever = {**self._ever, **now}
        self.cells[:] = now.values()
        return found

    def more(self) -> Sequence[Cell]:
        self.look()
        return self.cells

    def yielded(self) -> Collection[str]:
        """The cells that a newer plan gives to others."""
        return self._ever.keys() - {str(cell.fingerprint) for cell in self.cells}

    def _found(self) -> VettedCells:
        """What there is for it now, in the order of its plan."""
        asked, given = self._arguments, self._given
        if given is not None and asked.campaign is not None:
            cells, _ = assigned_cells(given, self._bench)
            cells = filter_cells(cells, only=asked.only, exclude=asked.exclude)
            cells = [cell for cell in cells if self._claim_policy.accepts(cell)]
            here = self._bench.allowed_here(cells)
            barred = tuple(cell.id for cell in cells if cell not in set(here))
            why = f"'runners' does not let {self._bench.host} run them"
            return VettedCells(cells=tuple(here), rejected={why: barred} if barred else {})
        found = self._claim_policy.sort(self._chosen())
        if given is None:
            return found
        place = {name: number for number, name in enumerate(given.cells)}
        cells = sorted(found.cells, key=lambda cell: place[cell.fingerprint])
        return replace(found, cells=tuple(cells))

    def _chosen(self) -> list[CellRecord]:
        ledger = self._bench.open_existing_ledger()
        if ledger is None:
            return []
        with closing(ledger):
            among = None if self._given is None else set(self._given.cells)
            records = [
                record for record in ledger.cells(fingerprints=among, with_cell=True) if record.cell
            ]
        cells = [record.cell for record in records if record.cell]
        asked = self._arguments
        pick = choose_cells if self._given is None else filter_cells
        chosen = {id(cell) for cell in pick(cells, only=asked.only, exclude=asked.exclude)}
        mine = {id(cell) for cell in self._bench.allowed_here(cells)}
        return [record for record in records if id(record.cell) in chosen & mine]


def _nothing_given(arguments: argparse.Namespace, study: Study, given: Tasks) -> int:
    if arguments.json:
        print(json.dumps({"campaign": study.campaign.name, "cells": 0, "given": given.by}))
    else:
        say(f"{study.campaign.name}: {given.by} gives {study.host} nothing to run")
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
        f"{study.ledger_text} holds no cell of {study.campaign.name!r} yet: whoever has the "
        "campaign's file brings them with `benchfleet run` or `work CAMPAIGN`; --forever waits"
    )


def _tell_left(arguments: argparse.Namespace, vetted: VettedCells) -> None:
    """Name the cells that this host leaves for others, with the reason."""
    stream = run.beside(arguments)
    for why, ids in vetted.rejected.items():
        some = ", ".join(ids[:_SHOWN]) + (", …" if len(ids) > _SHOWN else "")
        say(f"left for others: {counted(len(ids), 'cell')} ({some}): {why}", to=stream)
    if any("names code" in why for why in vetted.rejected):
        hint = "give the campaign's file, or say --trust-campaign if you trust whoever enrolled it"
        print(f"to run code that the ledger names: {hint}", file=stream)
