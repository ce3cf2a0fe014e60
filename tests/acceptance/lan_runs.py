"""Runs on hosts that are machines of their own, and what is seen of them there."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from benchfleet.domain.host import Host
from netns import Machine

from .conftest import User

SAMPLES = 60
SLOW = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 60, seconds: SECONDS}}]
defaults: {repeats: REPEATS}
"""
WORDS = ("run", "study.yaml", "--machines", "machines.json", "--log-json")


class Run:
    """A run in the background; what it says on its output is read as it comes."""

    def __init__(self, user: User, *words: str) -> None:
        self.process = user.start(*(words or WORDS))
        self.events: list[dict[str, Any]] = []
        self.rest: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.rest.append(line)

    def kill(self) -> None:
        """End it now, if it has not ended."""
        self.process.kill()
        self._reader.join(10)
        with self.process:
            pass

    def of(self, kind: str, **data: Any) -> list[dict[str, Any]]:
        """The events of this kind, with these data."""
        wanted = data.items()
        return [one for one in list(self.events) if one["kind"] == kind and wanted <= items_of(one)]

    def hosts(self, name: str) -> list[str]:
        """The kinds of notices on one host, in order."""
        kinds = ("host_ready", "host_lost")
        events = (one for one in self.events if one["kind"] in kinds)
        return [one["kind"] for one in events if one["data"].get("host") == name]

    def end(self, code: int) -> str:
        """Wait for its end with this exit code; what it printed besides the events."""
        assert self.process.stderr is not None
        errors = self.process.stderr.read()
        assert self.process.wait(120) == code, errors + "".join(self.rest)
        self._reader.join(10)
        assert [line for line in errors.splitlines() if " are one machine: " not in line] == []
        return "".join(self.rest)


def items_of(event: dict[str, Any]) -> Any:
    plain = {key: value for key, value in event["data"].items() if isinstance(value, (str, int))}
    return plain.items()


def write(user: User, *hosts: Host, repeats: int, seconds: float = 1.2) -> None:
    """A campaign of so many cells, each of which takes so long, and the hosts for it."""
    slow = SLOW.replace("SECONDS", f"{seconds / SAMPLES:g}")
    user.write(slow.replace("REPEATS", str(repeats)))
    output = {}
    for host in hosts:
        output[host.name] = {
            key: sorted(value) if isinstance(value, frozenset) else value
            for key, value in asdict(host).items()
            if value and key != "name"
        }
    user.write(json.dumps({"hosts": output}), "machines.json")


def slots_on(machine: Machine) -> dict[int, str]:
    """The slots that live on a host, and all that they started."""
    found = machine.processes().items()
    return {process: words for process, words in found if "benchfleet.slot" in words}


def answers(user: User) -> dict[str, list[str]]:
    """The samples of every published cell, in order."""
    found = {}
    for path in user.published():
        lines = (user.results / path / "samples.jsonl").read_text().splitlines()
        found[path] = [json.loads(line)["id"] for line in lines]
    return found


def complete(user: User, cells: int) -> dict[str, dict[str, Any]]:
    """The provenance of every cell, each of which was published once and with every sample."""
    every = [f"sample-{index}" for index in range(SAMPLES)]
    found = answers(user)
    assert len(found) == cells
    assert all(samples == every for samples in found.values())
    finished = Counter(
        outcome_of[0] for outcome_of in outcomes(user) if outcome_of[1]["state"] == "success"
    )
    assert set(finished.values()) == {1}
    assert len(finished) == cells
    return {path: json.loads(cell)["provenance"] for path, cell in user.published().items()}


def outcomes(user: User) -> list[tuple[str, dict[str, Any]]]:
    """What the ledger has of every attempt that ended, by cell."""
    ledger = sqlite3.connect(user.results / "ledger.db")
    rows = ledger.execute("select fingerprint, data from event where kind = 'finished'").fetchall()
    ledger.close()
    return [(fingerprint, json.loads(data)["outcome"]) for fingerprint, data in rows]


def failures(user: User) -> list[dict[str, Any]]:
    return [outcome for _, outcome in outcomes(user) if outcome["state"] != "success"]


def connections_of(user: User) -> list[psutil.Process]:
    """The ssh processes that use the known_hosts of this user's inventory."""
    known, found = str(user.folder / ".benchfleet" / "known_hosts"), []
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "ssh" and known in " ".join(process.info["cmdline"] or ()):
            found.append(process)
    return found


def sockets_of(user: User) -> Path:
    """The folder of the shared connections of this user's only run."""
    (folder,) = {
        Path(word.partition("=")[2].strip('"')).parent
        for ssh in connections_of(user)
        for word in ssh.cmdline()
        if word.startswith("ControlPath=")
    }
    return folder


def masters(folder: Path) -> list[str]:
    """The shared connections whose sockets lie in a folder; ssh names them so."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if words.startswith("ssh: ") and str(folder) in words:
            found.append(words)
    return found
