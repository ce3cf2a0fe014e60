"""``--watch``: cells of new checkpoints join a run as the checkpoints become complete."""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from benchfleet.campaign.checkpoints import NO_CHECKPOINT
from benchfleet.cli.shared import options
from benchfleet.cli.text.output import say
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.name_patterns import matches
from benchfleet.errors import BenchfleetError, CampaignError, wrong_option
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.study import Study

POLL_S = 5.0  # between two looks for checkpoints


def configure(parser: argparse.ArgumentParser) -> None:
    """Whether a run waits for more checkpoints."""
    parser.add_argument(
        "--watch",
        action="store_true",
        help="add the cells of new checkpoints as they become complete, newest first; ends with "
        "Ctrl-C, stop, or --idle-exit",
    )


def check(arguments: argparse.Namespace) -> None:
    """Raises CampaignError where the options do not go together."""
    if not arguments.watch:
        if arguments.verb == "run" and arguments.idle_exit is not None:
            raise wrong_option("--idle-exit", "is for runs that wait; add --watch")
        return
    if arguments.campaign is None:
        raise wrong_option("--watch", "needs the campaign's file, which names the checkpoints")
    if getattr(arguments, "assigned", None) is not None:
        raise wrong_option("--watch", "no plan contains new checkpoints; drop --assigned")


def opened(arguments: argparse.Namespace) -> tuple[Study, list[Cell]]:
    """The campaign and its cells. With --watch its first checkpoint is waited for."""
    is_reported = False
    while True:
        try:
            study, cells = options.opened(arguments)
        except CampaignError as error:
            waits = all(one.message.startswith(NO_CHECKPOINT) for one in error.mistakes)
            if not (arguments.watch and waits):
                raise
            if not is_reported:
                say(f"waiting: {error.mistakes[0].message}", to=sys.stderr, flush=True)
            is_reported = True
            time.sleep(POLL_S)
            continue
        if arguments.watch and not study.campaign.series:
            raise wrong_option("--watch", "the campaign names no checkpoints; add some, or drop it")
        return study, cells


class CheckpointWatch:
    """Looks for checkpoints in a thread of its own, and enrolls their cells."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        study: Study,
        cells: Sequence[Cell],
        warn: Callable[[str], None],
    ) -> None:
        self._arguments, self._warn = arguments, warn
        self.study, self.cells = study, list(cells)
        self._seen = self._sources()
        self._over = threading.Event()
        self._warned = ""

    def worker_options(self, worker_options: WorkerOptions) -> WorkerOptions:
        """The options of a run that waits for what is added."""
        idle_exit = self._arguments.idle_exit
        return replace(worker_options, more=lambda: self.cells, stays=True, idle_exit=idle_exit)

    def run(self) -> None:
        """Look until `stop`."""
        while not self._over.wait(POLL_S):
            try:
                self._look()
            except (BenchfleetError, OSError) as error:
                if (message := f"checkpoints: {error}") != self._warned:
                    self._warn(message)
                self._warned = message

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    def _look(self) -> None:
        if (sources := self._sources()) == self._seen:
            return
        study, cells = options.opened(self._arguments)
        globs = tuple(filter(None, getattr(self._arguments, "models", "").split(",")))
        cells = [cell for cell in study.allowed_here(cells) if matches(globs, cell.model.name)]
        before = {cell.fingerprint for cell in self.cells}
        new = [cell for cell in cells if cell.fingerprint not in before]
        # The run keeps cells whose checkpoint was deleted; it asks for these once others enroll.
        self.cells = [*self.cells, *new]
        if new:
            with closing(study.open_ledger()) as ledger:
                ledger.enroll(new)
            models = list(dict.fromkeys(cell.model.name for cell in new))
            self._warn(f"{counted(len(new), 'cell')} of new checkpoints: {', '.join(models)}")
        self.study, self._seen = study, sources

    def _sources(self) -> list[dict[int, str]]:
        return [series.sources() for series in self.study.campaign.series]


@contextlib.contextmanager
def watching(
    arguments: argparse.Namespace,
    study: Study,
    cells: Sequence[Cell],
    warn: Callable[[str], None],
) -> Iterator[CheckpointWatch | None]:
    """The watch of a run, where --watch asks for it."""
    if not arguments.watch:
        yield None
        return
    watch = CheckpointWatch(arguments, study, cells, warn)
    thread = threading.Thread(target=watch.run, name="checkpoints", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop()
        thread.join()
