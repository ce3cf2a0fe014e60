"""The page on taking over a repository, followed to the last cell on a remote that fails."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import StringIO
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.study import open_study
from earlier_repository import EarlierRepository, build, entry
from repositories import git

from .conftest import COMMAND, User

PAGE = Path(__file__).parents[2] / "docs/phases.md"
LEVELS = int(os.environ.get("TAKEOVER_LEVELS", "5"))
SEED = int(os.environ.get("GIT_FAULT_SEED", "1"))
HOSTS = ("weak", "medium", "strong")
LEASE_S = "6"
NO_LEDGER = 3  # exit code
FILE = "phase_settings.py"
SCRIPT = """\
import json
import os
import sys
import time
import zlib

name = "_".join(sys.argv[1:])
with open(os.environ["RUNS"], "a") as log:
    log.write(f"{name}.json\\n")
time.sleep(0.4)
print(json.dumps({"moves": 3, "success_rate": zlib.crc32(name.encode()) % 9 / 8}))
"""


def commands() -> list[list[str]]:
    """What the page tells its reader to type, in order."""
    section = PAGE.read_text().partition("## Taking over a repository\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\$ benchfleet (.+?)(?:\s+#.*)?$", section, re.MULTILINE)
    return [line.split() for line in lines]


@contextmanager
def refusing(bare: Path) -> Iterator[None]:
    """Refuse every push in this context."""
    hook = bare / "hooks/pre-receive"
    draft = bare / "hooks/draft"
    draft.write_text("#!/bin/sh\necho read-only now >&2; exit 1\n")
    draft.chmod(0o755)
    draft.rename(hook)
    yield
    hook.unlink()


@contextmanager
def away(bare: Path) -> Iterator[None]:
    """Move the remote away in this context."""
    elsewhere = bare.with_name("away.git")
    bare.rename(elsewhere)
    yield
    for lock in elsewhere.rglob("*.lock"):  # of a push that lost its folder just then
        lock.unlink()
    elsewhere.rename(bare)


class Fleet:
    """Workers of several machines, each with a folder and a host name of its own."""

    def __init__(self, user: User, command: list[str], campaign: Path, log: Path) -> None:
        self._user, self._command, self._log = user, command, log
        self._folders = {host: user.folder / host for host in HOSTS}
        for folder in self._folders.values():
            folder.mkdir()
            for name in (FILE, "run.py"):
                shutil.copy(campaign / name, folder)
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start(self, host: str) -> None:
        environment = {"BENCHFLEET_HOST": host, "RUNS": str(self._log)}
        with (self._folders[host] / "output").open("a") as output:
            process = subprocess.Popen(
                [*COMMAND, *self._command, "--cpu-slots", "1"],
                cwd=self._folders[host],
                env={**self._user.environment, **environment},
                stdout=output,
                stderr=output,
                text=True,
            )
        self._user.started.append(process)
        self.running[host] = process

    def output(self, host: str) -> str:
        return (self._folders[host] / "output").read_text()


@pytest.mark.timeout(60 + 60 * LEVELS)
def test_crashing_workers_end_a_taken_over_repository_on_a_failing_remote(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", LEASE_S)
    made = build(user.folder, LEVELS)
    made.folder.rename(user.folder / "old-results")
    url = f"git+file://{made.remote}"
    study = User(user.folder / "study", user.started)
    study.folder.mkdir()
    look, draft, take_over, work, merge = (
        [url if word.startswith("git+") else word for word in words] for words in commands()
    )
    study.run(*look)
    study.run(*draft)
    text = (study.folder / FILE).read_text()
    study.write(text.replace("\n# RUN = ", "\nRUN = "), FILE)  # as the file says
    study.write(SCRIPT, "run.py")
    assert study.json(*take_over)["published"] == len(made.done)
    log = user.write("", "runs.txt")
    fleet = Fleet(user, work, study.folder, log)
    dice = random.Random(SEED)
    faults: list[Callable[[Path], object]] = [refusing, away] * LEVELS
    for host in HOSTS:
        fleet.start(host)
    for number, fault in enumerate(faults):
        seen = log.stat().st_size
        while log.stat().st_size == seen and any(p.poll() is None for p in fleet.running.values()):
            time.sleep(0.05)
        with fault(made.remote):  # type: ignore[attr-defined]
            time.sleep(dice.uniform(0.2, 1.0))
            host = HOSTS[number % len(HOSTS)]
            fleet.running[host].kill()
            fleet.running[host].wait()
        fleet.start(host)
    for host, process in [*fleet.running.items()]:
        if process.wait(timeout=60 * LEVELS) == NO_LEDGER:  # it was started in an outage
            fleet.start(host)
    for host, process in fleet.running.items():
        assert process.wait(timeout=60 * LEVELS) == 0, fleet.output(host)
    study.run(*merge)
    _check(study, made, url, log)


def _check(study: User, made: EarlierRepository, url: str, log: Path) -> None:
    """Every cell is done once, no import ran again, and all means are those of the files."""
    campaign = load_campaign(study.folder / FILE)
    ledger = open_study(campaign, ledger=url).open_existing_ledger()
    assert ledger is not None
    with closing(ledger):
        assert {record.state for record in ledger.cells()} == {"success"}
        finished = Counter(event.fingerprint for event in ledger.events(kinds=["finished"]))
    assert set(finished.values()) == {1}
    assert len(finished) == len(made.done) + len(made.todo)
    assert set(log.read_text().split()) == {entry(name) for name in made.todo}
    main = made.folder.parent / "old-results"
    git(main, "pull", "-q", "origin", "main")
    git(main, "fetch", "-q", "origin", "refs/benchfleet/*:refs/benchfleet/*")
    history = git(main, "log", "--format=%s", "--glob=refs/benchfleet/phase_settings").splitlines()
    ends = [line for line in history if line.startswith("finish ")]
    others = [int(line.split()[-2]) for line in ends if line.endswith(" more")]  # … and 2 more
    assert len(ends) + sum(others) == len(finished)
    files = {
        file.name: json.loads(file.read_text())
        for file in main.glob("runs/phase_settings/*/*.json")
    }
    scores = {name: content["success_rate"] for name, content in files.items()}
    new = {entry(name): zlib.crc32(entry(name)[:-5].encode()) % 9 / 8 for name in made.todo}
    assert scores == {entry(name): score for name, score in made.done.items()} | new
    text = study.run("report", FILE, "--ledger", url, "--format", "csv").stdout
    rows = {(r["model"], r["config"], r["benchmark"]): r for r in csv.DictReader(StringIO(text))}
    means = {key: float(row["mean"]) for key, row in rows.items()}
    assert means == pytest.approx(made.means(new), abs=1e-12)
    remaining = [file.read_text().split("\n") for file in main.glob("data/phase/*.txt")]
    assert {line for lines in remaining for line in lines} == {"", "repeat the easy ones!"}
