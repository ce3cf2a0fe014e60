"""Workers on one PostgreSQL ledger, each with a folder of its own, and a place between them."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from objectstore import ObjectStoreServer
from postgres import Postgres
from sshd import Sshd

from .conftest import COMMAND, User, until

CELLS = 8
CAMPAIGN = """\
campaign: study
results: {place}
defaults: {{repeats: 4}}
matrix:
  models:
    - {{name: m1, adapter: mock, model_kwargs: {{answer: Ada Brandt, seconds: 0.05}}}}
    - {{name: m2, adapter: mock, model_kwargs: {{answer: Ingham, seconds: 0.05}}}}
  configs: {{dense: null}}
  benchmarks: [mock_benchmark]
"""
SOON = 120  # seconds


class Fleet:
    """Workers that know nothing but the ledger's address."""

    def __init__(self, user: User, url: str, environment: Mapping[str, str]) -> None:
        self.user, self.url = user, url
        self.environment = {**user.environment, "BENCHFLEET_LEASE_SECONDS": "3", **environment}
        self._running: list[subprocess.Popen[bytes]] = []

    def work(self, host: str) -> subprocess.Popen[bytes]:
        log = open(self.user.folder / f"{host}.log", "ab")  # noqa: SIM115 - the process has it
        with log:
            process = subprocess.Popen(
                [*COMMAND, "work", "--ledger", self.url, "--results", host, "--cpu-slots", "1"],
                cwd=self.user.folder,
                env={**self.environment, "BENCHFLEET_HOST": host},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def ask(self, *words: str, code: int = 0) -> str:
        command = [*COMMAND, *words, "--ledger", self.url]
        done = subprocess.run(
            command, cwd=self.user.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "very-secret" not in done.stdout + done.stderr
        return done.stdout

    def published(self, base: str) -> dict[str, str]:
        """The digest of each result's cell.json, by path."""
        root = self.user.folder / base / "study"
        return {
            file.parent.relative_to(root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in root.glob("[!.]*/*/*/*/cell.json")
        }

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


def prove(fleet: Fleet, place: str) -> None:
    """Run all cells on three hosts, one of which is killed, and bring the results together."""
    file = fleet.user.write(CAMPAIGN.format(place=place))
    fleet.ask("cancel", "study.yaml", "--yes")  # which enrolls them
    fleet.ask("ledger", "init", "study.yaml")
    fleet.ask("retry", "study.yaml")
    file.unlink()
    hosts = ["lab1", "lab2", "lab3"]
    workers = {"lab2": fleet.work("lab2")}
    until(lambda: any((fleet.user.folder / "lab2" / "study").glob(".attempts/*")), SOON)
    workers |= {host: fleet.work(host) for host in ("lab1", "lab3")}
    until(lambda: bool(fleet.published("lab2")), SOON)
    os.killpg(workers["lab2"].pid, signal.SIGKILL)
    for host in ("lab1", "lab3"):
        code = workers[host].wait(SOON)
        assert code == 0, (fleet.user.folder / f"{host}.log").read_text()
    again = fleet.work("lab2")  # its outbox goes first; nothing else is left
    assert again.wait(SOON) == 0, (fleet.user.folder / "lab2.log").read_text()
    output = json.loads(fleet.ask("merge", "--results", "all", "--json"))
    assert (output["done"], output["missing"], output["refused"], output["away"]) == (
        CELLS,
        {},
        [],
        {},
    )
    made = fleet.published("all")
    assert len(made) == len(output["came"]) == CELLS
    apart = [fleet.published(host) for host in hosts]
    assert sum(map(len, apart)) == CELLS  # each was published on one host alone
    assert {path: digest for found in apart for path, digest in found.items()} == made
    assert json.loads(fleet.ask("merge", "--results", "all", "--json"))["came"] == {}
    assert "m2" in fleet.ask("report", "--results", "all")
    status = json.loads(fleet.ask("status", "--results", "lab1", "--json"))
    assert (status["success"], status["gone"], status["unsent"]) == (CELLS, [], 0)


@pytest.fixture
def url(postgres: Postgres) -> str:
    name = f"lab_{uuid.uuid4().hex[:8]}"
    postgres.sql(f"create database {name}")
    return postgres.url(database=name)


def test_over_rsync(user: User, url: str, sshd: Sshd, tmp_path: Path) -> None:
    shell = ["ssh", "-F", "none", "-i", str(sshd.identity), "-o", "IdentitiesOnly=yes"]
    known = ["-o", f"UserKnownHostsFile={tmp_path}/known", "-o", "StrictHostKeyChecking=accept-new"]
    fleet = Fleet(user, url, {"RSYNC_RSH": shlex.join([*shell, *known])})
    try:
        prove(fleet, f"rsync://127.0.0.1:{sshd.port}{tmp_path}/srv")
    finally:
        fleet.end()


def test_over_an_object_store(user: User, url: str, tmp_path: Path) -> None:
    store = ObjectStoreServer(tmp_path / "store.log")
    fleet = Fleet(user, url, store.environment)
    try:
        prove(fleet, f"{store.bucket('lab')}/results")
    finally:
        fleet.end()
        store.stop()
