"""A campaign that is run round after round while it is tormented, and what must hold of each."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.campaign.load import load_campaign
from benchfleet.environment import LEASE
from benchfleet.results.read import published_folders
from chaos.adversary import Adversary
from chaos.runners import Runners
from chaos.small_disk import small_disk
from chaos.witness import Witness
from simulation.invariants import (
    differences,
    leftovers,
    result_content,
    wrong_counts,
    wrong_history,
    wrong_results,
)

_COMMAND = [sys.executable, "-m", "benchfleet"]
_LEASE = 4.0  # seconds
_BOUND = (
    180.0  # seconds that a run which nobody disturbs may take, and twenty times an undisturbed one
)
_GONE = 30.0  # seconds for processes to be gone
_TRIES = 6  # runs in peace until every cell is to have succeeded


@dataclass(frozen=True, kw_only=True)
class Act:
    """Something that was done, or found."""

    at: float  # seconds since the start
    round: int
    act: str
    detail: str


class _Unfinished(Exception):
    """A round whose campaign does not come to its end."""


@dataclass(kw_only=True)
class Torment:
    """A campaign and what is done to it; `acts` and `wrong` grow while it lasts."""

    campaign: Path
    place: Path  # a folder for the rounds
    seed: int
    options: Sequence[str] = ()  # of `benchfleet run`
    acts: list[Act] = field(default_factory=list)
    wrong: list[Act] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._round = 0
        self._environment = {**os.environ, LEASE: f"{_LEASE:g}"}
        self._references: list[dict[str, dict[str, Any]]] = []
        self._bound = _BOUND
        self._name = load_campaign(self.campaign).with_results(self.place).results.name

    def for_minutes(self, minutes: float) -> None:
        """Round after round until the time is over, one at least."""
        self.look_undisturbed()
        number = 1
        while number == 1 or time.monotonic() - self._began < 60 * minutes:
            self.round(number)
            number += 1

    def look_undisturbed(self) -> None:
        """Run the campaign twice in peace: what is the same in both is to stay the same."""
        runs = []
        began = time.monotonic()
        for number in (1, 2):
            place = self._fresh(f"undisturbed-{number}")
            words = self._words("run", place / "results", "", *self.options)
            runs.append((place, self._start(words, place / "run.log")))
        for place, run in runs:
            if run.wait(timeout=24 * 3600) != 0:
                log = (place / "run.log").read_text(errors="replace")
                raise SystemExit(f"the campaign does not succeed undisturbed:\n{log}")
            root = place / "results" / self._name
            self._references.append(_said_by_all(root))
        self._bound = max(_BOUND, 20 * (time.monotonic() - began))

    def round(self, number: int) -> None:
        """Torment the campaign, with fresh results; they are kept where something is wrong."""
        self._round = number
        known = len(self.wrong)
        chance = random.Random(f"{self.seed} {number}")
        place = self._fresh(f"round-{number}")
        results = place / "results"
        ledger = f"sqlite:{place}/ledger.db" if chance.random() < 0.3 else ""
        root = results / self._name
        runners = Runners(
            self._words("run", results, ledger, "--log-json", *self.options),
            self._environment,
            place,
        )
        disk = small_disk(results, runners.processes) if chance.random() < 0.4 else None
        witness = Witness(root, place / "ledger.db" if ledger else root / "ledger.db")
        adversary = Adversary(
            f"{self.seed} {number} acts",
            runners,
            self._say,
            lease=_LEASE,
            disk=disk,
            held=witness.held,
        )
        output = [f"seed {self.seed}", f"results on {disk.how if disk else 'the disk'}"]
        self._say("round", ", ".join([*output, f"ledger {ledger or 'beside them'}"]))
        witness.start()
        try:
            self._disturb(runners, adversary)
            self._end(runners)
            if paths := sorted(witness.committed()) if witness.ledger_is_there() else []:
                self._tamper(adversary, witness, results, ledger, paths)
            self._finish(results, ledger, runners)
            witness.stop()
            self._check(place, results, ledger, witness, runners)
        except _Unfinished:
            pass  # the ledger's record says all
        finally:
            runners.end()
            witness.stop()
            if disk is not None:
                if len(self.wrong) > known:
                    shutil.copytree(results, place / "kept", symlinks=True)
                disk.close()
        if len(self.wrong) == known:
            shutil.rmtree(place, ignore_errors=True)
        else:
            self._say("kept", f"{place}; `--round {number}` with the same seed does it again")

    # One round

    def _disturb(self, runners: Runners, adversary: Adversary) -> None:
        chance = adversary.random
        wanted = chance.choice((1, 2))
        for _ in range(chance.randint(3, 12)):
            while len(runners.alive()) < wanted:
                self._say("start", runners.number(runners.start()))
            adversary.rest(chance.choice((0.05, 0.3, 0.7, 1.0, 2.0)))
            adversary.act()
        adversary.relent()

    def _end(self, runners: Runners) -> None:
        """Wait for those who are still there."""
        deadline = time.monotonic() + self._bound
        while runners.alive():
            if time.monotonic() > deadline:
                lines = [f"{p.pid} {p.status()} {p.cmdline()[:4]}" for p in runners.processes()]
                self._wrong("hangs", "a runner does not end: " + "; ".join(lines))
                runners.end()
            time.sleep(0.05)

    def _tamper(
        self,
        adversary: Adversary,
        witness: Witness,
        results: Path,
        ledger: str,
        paths: Sequence[str],
    ) -> None:
        """Change a published result by hand: that it is to be noticed, and to be run again."""
        root = results / self._name
        there = [path for path in paths if (root / path).is_dir()]
        if not there or adversary.random.random() < 0.5:
            return
        with witness.looking_away():
            path = adversary.tamper(root, there)
            gone = json.loads(self._told("status", results, ledger, "--json"))["gone"]
            if path not in gone:
                refused = json.loads(self._told("ledger rebuild", results, ledger, "--json"))
                if path not in [place for place, _ in refused["refused"]]:
                    self._wrong("unnoticed", f"{path} was changed, and nothing says so")
            shutil.rmtree(root / path, ignore_errors=True)  # what is left is in the way
            self._told("retry", results, ledger, "--gone", "--yes")
            witness.forget(path)

    def _finish(self, results: Path, ledger: str, runners: Runners) -> None:
        """Run in peace until every cell has succeeded."""
        for _ in range(_TRIES):
            run = runners.start()
            self._say("peace", runners.number(run))
            self._end(runners)
            status = json.loads(self._told("status", results, ledger, "--json"))
            if run.returncode == 0 and status["success"] == status["total"]:
                return
            if status["failed"] or status["partial"]:
                self._say("retry", f"{status['failures']}")
                self._told("retry", results, ledger)
        self._wrong("does not end", f"{_TRIES} undisturbed runs left {status}")
        raise _Unfinished

    def _check(
        self, place: Path, results: Path, ledger: str, witness: Witness, runners: Runners
    ) -> None:
        root = results / self._name
        for what in witness.wrong:
            self._wrong("published", what)
        for what in wrong_history(witness.events(), witness.expiries):
            self._wrong("history", what)
        for what in wrong_results(root, witness.committed()):
            self._wrong("results", what)
        for what in leftovers(root):
            self._wrong("left behind", what)
        status = json.loads(self._told("status", results, ledger, "--json"))
        summary = json.loads((root / "execution_summary.json").read_text())
        for what in wrong_counts(status, summary, (root / "report.md").read_text()):
            self._wrong("counts", what)
        for path, found in _said_by_all(root).items():
            one, other = (reference.get(path, {}) for reference in self._references)
            for what in differences(found, one, other)[:3]:
                self._wrong("content", f"{path}: {what}")
        deadline = time.monotonic() + _GONE
        while (left := runners.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in left:
            with contextlib.suppress(Exception):
                self._wrong("process", f"{process.pid} lives on: {process.cmdline()[:4]}")
        for log in sorted(place.glob("*.log")):
            text = log.read_text(errors="replace")
            if "Traceback" in text and "KeyboardInterrupt" not in text:
                self._wrong("traceback", f"{log}: {text[text.index('Traceback') :][-2000:]}")

    # How it runs and reports

    def _fresh(self, name: str) -> Path:
        place = self.place / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def _words(self, verb: str, results: Path, ledger: str, *more: str) -> list[str]:
        where = ["--results", str(results), *(["--ledger", ledger] if ledger else [])]
        return [*_COMMAND, *verb.split(), str(self.campaign), *where, *more]

    def _start(self, words: list[str], log: Path) -> subprocess.Popen[bytes]:
        with open(log, "wb") as opened:
            return subprocess.Popen(
                words, env=self._environment, stdin=subprocess.DEVNULL, stdout=opened, stderr=opened
            )

    def _told(self, verb: str, results: Path, ledger: str, *more: str) -> str:
        """What a verb prints, which may end well or with 1."""
        done = subprocess.run(
            self._words(verb, results, ledger, *more),
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=self._bound,
        )
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            self._wrong("verb", f"{verb} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def _say(self, act: str, detail: str) -> None:
        output = Act(at=self._now(), round=self._round, act=act, detail=detail)
        self.acts.append(output)
        print(f"{output.at:9.2f} s  round {output.round:<4} {act:<20} {detail}", flush=True)

    def _wrong(self, what: str, detail: str) -> None:
        self._say(f"WRONG: {what}", detail)
        self.wrong.append(self.acts[-1])

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 3)


def _said_by_all(root: Path) -> dict[str, dict[str, Any]]:
    return {
        folder.relative_to(root).as_posix(): result_content(folder)
        for folder in published_folders(root)
    }
