"""The race of a run: decided in a thread of its own, whenever a cell has ended."""

from __future__ import annotations

import argparse
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from benchfleet.errors import BenchfleetError
from benchfleet.race import Racer
from benchfleet.runner.progress import Notice, Progress
from benchfleet.study import Study

LEDGER_TIMEOUT_S = 60.0  # of each call; a hosted ledger waits for its next push
LARGEST_SHARE = 0.1  # of the time of a run that decisions take
LAST_TIMEOUT_S = 60.0  # for the decision after the last cell


class RaceWatch:
    """An observer of a run; it never waits and never raises. A decision that fails is a warning,
    and the next cell that ends brings another one."""

    def __init__(self, study: Study, warn: Callable[[str], None]) -> None:
        self._study, self._warn = study, warn
        self._racer: Racer | None = None
        self._changed = threading.Condition()
        self._is_due, self._over = True, False  # others may have brought results before
        self._warned = ""
        self._reported: set[str] = set()  # groups that do not race
        self._thread = threading.Thread(target=self._run, name="race", daemon=True)
        self._thread.start()

    def __call__(self, notice: Notice, progress: Progress) -> None:
        if notice.kind == "cell_done":
            with self._changed:
                self._is_due = True
                self._changed.notify()

    def close(self) -> None:
        """Decide once more where a cell has ended since, and end."""
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join(LAST_TIMEOUT_S)

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over, timeout=pause)
                self._changed.wait_for(lambda: self._is_due or self._over)
                if not self._is_due:
                    return
                self._is_due = False
            began = time.monotonic()
            try:
                self._decide()
            except (BenchfleetError, OSError, ValueError) as error:
                if (message := f"race: nothing was decided: {error}") != self._warned:
                    self._warn(message)
                self._warned = message
            pause = (time.monotonic() - began) * (1 / LARGEST_SHARE - 1)

    def _decide(self) -> None:
        ledger = self._study.open_existing_ledger(writes=True)
        if ledger is None:
            return
        with closing(ledger), ledger.within(LEDGER_TIMEOUT_S):
            self._racer = self._racer or Racer(self._study, self._study.cells())
            for stop in self._racer.decide(ledger):
                self._warn(f"race: {stop}")
            for note in self._racer.notes:
                if note not in self._reported:
                    self._warn(f"race: {note}")
                self._reported.add(note)


@contextlib.contextmanager
def racing(
    arguments: argparse.Namespace, study: Study, warn: Callable[[str], None]
) -> Iterator[RaceWatch | None]:
    """The watch of a run, where the campaign has a race. A trial with --limit has none."""
    if study.campaign.race is None or arguments.limit is not None:
        yield None
        return
    watch = RaceWatch(study, warn)
    try:
        yield watch
    finally:
        watch.close()
