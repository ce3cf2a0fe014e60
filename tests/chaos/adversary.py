"""What a campaign is tormented with: a seed decides what happens next, to whom, and when."""

from __future__ import annotations

import contextlib
import heapq
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from benchfleet.results.layout import CELL
from chaos.runners import Runners
from chaos.small_disk import Disk

Say = Callable[[str, str], None]  # an act, and what it was done to
_FULL = 3.0  # seconds that a disk stays full, at most
_TAKEN_OVER = 5  # leases that a stopped runner's cells are given to be claimed by another


class Adversary:
    """Does one thing after another to the runners of a round. Made again with the same seed it
    picks the same acts; what they hit depends on the moment too."""

    def __init__(
        self,
        seed: str,
        runners: Runners,
        say: Say,
        *,
        lease: float,
        disk: Disk | None,
        held: Callable[[], Mapping[str, int]],
    ) -> None:
        self.random = random.Random(seed)
        self._runners, self._say, self._lease, self._disk = runners, say, lease, disk
        self._held = held  # the token of each cell that is held now
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._acts: dict[Callable[[], None], int] = {
            self._kill_runner: 3,
            self._end_runner: 3,
            self._interrupt_twice: 1,
            self._kill_slot: 4,
            self._kill_supervisor: 3,
            self._kill_stray: 2,
            self._stop_slot: 2,
            self._stop_supervisor: 1,
            self._stop_runner: 2,
            self._outlast_runner: 6,
            self._cut_connection: 2,
        }
        if disk is not None:
            self._acts[self._fill_disk] = 5

    def act(self) -> None:
        """The next thing."""
        self.random.choices(list(self._acts), list(self._acts.values()))[0]()

    def rest(self, seconds: float) -> None:
        """Let time pass, in which what was begun is ended when it is due."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            while self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
            time.sleep(0.02)

    def relent(self) -> None:
        """End all faults: stopped processes continue, and the disk has room again."""
        while self._due:
            self.rest(0.05)

    def tamper(self, root: Path, paths: list[str]) -> str:
        """Do something to a published result by hand; its path."""
        path = self.random.choice(sorted(paths))
        folder = root / path
        file = folder / self.random.choice(sorted(f.name for f in folder.iterdir() if f.is_file()))
        how = self.random.choice(("delete all", "delete cell.json", "delete", "truncate", "spoil"))
        if how == "delete all":
            shutil.rmtree(folder)
        elif how == "delete cell.json":
            (folder / CELL).unlink()
        elif how == "delete" or file.stat().st_size == 0:
            file.unlink()
        elif how == "truncate":
            os.truncate(file, self.random.randrange(file.stat().st_size))
        else:
            with open(file, "r+b") as opened:
                opened.seek(self.random.randrange(file.stat().st_size))
                byte = opened.read(1)
                opened.seek(-1, os.SEEK_CUR)
                opened.write(bytes([byte[0] ^ 1]))
        self._say("tamper", f"{how}: {path} ({file.name})")
        return path

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, self.random.getrandbits(64), what))

    def _runner(self) -> subprocess.Popen[bytes] | None:
        alive = self._runners.alive()
        return self.random.choice(alive) if alive else None

    def _signal_runner(self, name: str, number: signal.Signals) -> None:
        if run := self._runner():
            run.send_signal(number)
            self._say(name, f"{self._runners.number(run)}, {number.name}")

    def _kill_runner(self) -> None:
        self._signal_runner("kill runner", signal.SIGKILL)

    def _end_runner(self) -> None:
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        self._signal_runner("end runner", self.random.choice(numbers))

    def _interrupt_twice(self) -> None:
        if run := self._runner():
            run.send_signal(signal.SIGINT)
            self.rest(self.random.choice((0.0, 0.05, 0.3)))
            run.send_signal(signal.SIGINT)
            self._say("end runner at once", f"{self._runners.number(run)}, SIGINT twice")

    def _kill_one(self, name: str, found: list[psutil.Process]) -> None:
        if found:
            process = self.random.choice(found)
            with contextlib.suppress(psutil.Error):
                process.kill()
            self._say(name, f"process {process.pid}")

    def _kill_slot(self) -> None:
        self._kill_one("kill slot", self._runners.slots())

    def _kill_supervisor(self) -> None:
        self._kill_one("kill supervisor", self._runners.supervisors())

    def _kill_stray(self) -> None:
        self._kill_one("kill stray", self._runners.strays())

    def _cut_connection(self) -> None:
        self._kill_one("cut connection", self._runners.connections())

    def _stop(self, name: str, process: psutil.Process, seconds: float) -> None:
        def go_on() -> None:
            with contextlib.suppress(psutil.Error):
                process.resume()
            self._say("go on", f"process {process.pid}")

        with contextlib.suppress(psutil.Error):
            process.suspend()
            self._say(name, f"process {process.pid} for {seconds:.1f} s")
            self._later(seconds, go_on)

    def _stop_slot(self) -> None:
        self._stop_one("stop slot", self._runners.slots())

    def _stop_supervisor(self) -> None:
        self._stop_one("stop supervisor", self._runners.supervisors())

    def _stop_one(self, name: str, found: list[psutil.Process]) -> None:
        if found:
            self._stop(name, self.random.choice(found), self._lease * self.random.uniform(0.5, 2))

    def _stop_runner(self) -> None:
        """Past its lease, while another is there to take over."""
        if run := self._runner():
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(run.pid)
                self._stop(
                    f"stop {self._runners.number(run)}",
                    process,
                    self._lease * self.random.uniform(0.9, 2.2),
                )
            if len(self._runners.alive()) < 2:
                self._runners.start()

    def _outlast_runner(self) -> None:
        """Stopped, alone or with all it started, until another claimed a cell of it: then it goes
        on with a cell, or ends one, that is not its own any more."""
        alive = self._runners.alive()
        held = self._held()
        if not alive or not held:
            return
        run, whole = self.random.choice(alive), self.random.random() < 0.5
        stopped = self._runners.tree(run) if whole else self._runners.tree(run)[:1]
        for process in stopped:
            with contextlib.suppress(psutil.Error):
                process.suspend()
        name = self._runners.number(run)
        self._say("outlast", f"{name}, {'with all it started' if whole else 'alone'}")
        if len(alive) < 2:
            self._runners.start()
        until = time.monotonic() + _TAKEN_OVER * self._lease
        while not (taken := self._taken_over(held)) and time.monotonic() < until:
            self.rest(0.02)
        self.rest(self.random.choice((0.0, 0.0, self._lease)))  # its slots may be done by then
        for process in reversed(stopped):  # the runner last: it is to find nothing amiss
            with contextlib.suppress(psutil.Error):
                process.resume()
        found = f"cell {taken[:8]} is another runner's now" if taken else "nobody took a cell of it"
        self._say("go on", f"{name}, {found}")

    def _taken_over(self, before: Mapping[str, int]) -> str:
        """A cell that was held before, and was claimed again since; ``""`` where none was."""
        now = self._held()
        return next((cell for cell, token in before.items() if now.get(cell, 0) > token), "")

    def _fill_disk(self) -> None:
        if self._disk is not None:
            self._disk.fill()
            self._say("fill disk", self._disk.how)
            disk = self._disk

            def make_room() -> None:
                disk.make_room()
                self._say("make room", "")

            self._later(self.random.uniform(0.3, _FULL), make_room)
