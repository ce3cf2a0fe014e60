"""A study in the four phases of scripts, as three machines of somebody's home run it together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

SOON = 100  # seconds
HOSTS = ("lab1", "lab2", "lab3")
CELLS = {"prerequisites": 3, "e0": 6, "e1": 3, "e2": 2}
SCRIPT = """\
import argparse, json, pathlib, time
parser = argparse.ArgumentParser()
parser.add_argument("--config")
config = json.loads(pathlib.Path(parser.parse_args().config).read_text())
if "hold" in config:
    pathlib.Path("at_work").touch()
    while pathlib.Path(config["hold"]).exists():
        time.sleep(0.02)
print(json.dumps(config["reports"]))
"""
_PHASE = """\
  - name: {name}
{more}    matrix:
      benchmarks:
"""
_TASK = """\
        - command: {{experiment: {task}, argv: [python, run.py], config: configs/{task}.json,
            output: results/{task}_results.json{critical}}}
"""
_GATES = {
    "prerequisites": "passed == true and completeness == 1",
    "e0": "min(accuracy) >= 0.9",
    "e1": "mean(recall) >= 0.8",
}


def campaign(*, results: str = "") -> str:
    """The campaign's file; its first gates hold, and that of ``e1`` does not."""
    lines = [
        "campaign: study\n",
        f"results: {results}\n" if results else "",
        "eligibility: {any: ram_total >= 1MB, tiers: [{tier: 1, when: any}]}\n",
        "matrix: {models: [{name: local, adapter: none}]}\n",
        "phases:\n",
    ]
    for name, count in CELLS.items():
        gate = f'    gate: "{_GATES[name]}"\n' if name in _GATES else ""
        lines.append(_PHASE.format(name=name, more=gate))
        critical = ", critical: true" if name == "prerequisites" else ""
        lines += [_TASK.format(task=task, critical=critical) for task in _tasks(name, count)]
    return "".join(lines)


def _tasks(phase: str, count: int) -> list[str]:
    letter = "P" if phase == "prerequisites" else f"{phase.upper()}-"
    return [f"{letter}{number}" for number in range(1, count + 1)]


def write(folder: Path, hold: Path, *, results: str = "") -> None:
    """The campaign and its scripts, as each machine has a checkout of them. Cells of ``e0`` go on
    once `hold` is gone."""
    (folder / "configs").mkdir(parents=True)
    (folder / "study.yaml").write_text(campaign(results=results))
    (folder / "run.py").write_text(SCRIPT)
    reports = {
        "prerequisites": {"passed": True},
        "e0": {"accuracy": 0.95},
        "e1": {"recall": 0.5},
        "e2": {"score": 1.0},
    }
    for phase, count in CELLS.items():
        for task in _tasks(phase, count):
            output: dict[str, Any] = {"reports": reports[phase]}
            if phase == "e0":
                output["hold"] = str(hold)
            (folder / "configs" / f"{task}.json").write_text(json.dumps(output))


def measured_alike(reports: Path) -> None:
    """Give all reports the speed of the first: they are of one machine, which was busy."""
    files = sorted(reports.glob("capability_report_*.json"))
    found = {file: json.loads(file.read_text()) for file in files}
    speed = found[files[0]]["benchmark"]
    for file, output in found.items():
        output["benchmark"] = output["results"]["benchmark"] = speed
        output["results"]["cpu"]["load"] = 0.0
        file.write_text(json.dumps(output))


class Lab:
    """Machines with nothing in common but a ledger's address: each a folder and processes."""

    def __init__(
        self, folder: Path, command: Sequence[str], environment: Mapping[str, str], url: str
    ) -> None:
        self.folder, self.hold = folder, folder / "hold"
        self._command, self._environment, self._url = command, environment, url
        self._workers: list[subprocess.Popen[bytes]] = []
        self.hold.touch()
        for host in (*HOSTS, "desk"):
            write(folder / host, self.hold)

    def start(self, host: str, *words: str) -> subprocess.Popen[bytes]:
        """Begin something on a machine, in a group of processes of its own."""
        with open(self.folder / f"{host}.log", "ab") as log:
            process = subprocess.Popen(
                [*self._command, *words, "--ledger", self._url],
                cwd=self.folder / host,
                env={**self._environment, "BENCHFLEET_HOST": host},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._workers.append(process)
        return process

    def ask(self, *words: str, code: int = 0) -> str:
        """What a verb says on the desk from which all is seen to."""
        done = subprocess.run(
            [*self._command, *words, "--ledger", self._url],
            cwd=self.folder / "desk",
            env={**self._environment, "BENCHFLEET_HOST": "desk"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.ask(*words, "--json", code=code))

    def output_of(self, host: str) -> str:
        """What its processes have printed."""
        return (self.folder / f"{host}.log").read_text()

    def published(self, host: str) -> set[str]:
        """The results that lie on a machine, by path."""
        root = self.folder / host / "benchmark_results" / "study"
        return {
            file.parent.relative_to(root).as_posix() for file in root.glob("[!.]*/*/*/cell.json")
        }

    def end(self) -> None:
        """Whatever is still there goes."""
        for process in self._workers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def until(condition: Callable[[], object], output: Callable[[], str]) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline, output()
        time.sleep(0.05)


@contextmanager
def ended(lab: Lab) -> Iterator[Lab]:
    try:
        yield lab
    finally:
        lab.end()


def prove(lab: Lab) -> int:
    """Probe, plan, work; lose a machine; plan again; pass a gate, fail one. How many are done."""
    reports = lab.folder / "desk" / "reports"
    probe = ("probe", "study.yaml", "--quick", "--out", str(reports))
    for process in [lab.start(host, *probe) for host in HOSTS]:
        process.wait(SOON)
    measured_alike(reports)
    plan = lab.json("assign", "study.yaml", "--reports", "reports", "--effort", "0.1")
    total = sum(CELLS.values())
    assert len(plan["cells"]) == total
    given = {host: sum(one["machine"] == host for one in plan["cells"]) for host in HOSTS}
    assert all(given.values())
    words = ("work", "study.yaml", "--assigned", "--cpu-slots", "1")
    workers = {host: lab.start(host, *words) for host in HOSTS}
    for host in HOSTS:  # each is in the middle of a cell of e0
        until((lab.folder / host / "at_work").exists, partial(lab.output_of, host))
    os.killpg(workers["lab3"].pid, signal.SIGKILL)
    lost = lab.json("reassign", "study.yaml", "--failed-machine", "lab3", "--yes")
    assert [one["host"] for one in lost["reassigned"]] == ["lab3"]
    assert lost["only_planned"] == given["lab3"] - len(lab.published("lab3")) - 1
    assert sum(lost["moved"].values()) == lost["only_planned"] + 1
    assert set(lost["moved"]) <= {"lab1", "lab2"}
    lab.hold.unlink()
    codes = [workers[host].wait(SOON) for host in ("lab1", "lab2")]
    output = lab.output_of("lab1") + lab.output_of("lab2")
    assert set(codes) <= {0, 1}, output  # 0: it had no cell of e2, and did all of its own
    assert 1 in codes, output
    assert "the gate of phase e1 is closed" in output
    gates = lab.json("gate", "show", "study.yaml", code=1)["phases"]
    assert [one["state"] for one in gates] == ["passed", "passed", "closed", "held"]
    numbers = [one["decision"]["numbers"][0] for one in gates[1:3]]
    assert numbers[0].startswith("min(accuracy) = 0.95 (of 6 cells"), numbers
    assert numbers[1].startswith("mean(recall) = 0.5 (of 3 cells"), numbers
    status = lab.json("status", "study.yaml")
    done = total - CELLS["e2"]
    assert (status["success"], status["pending"], status["running"]) == (done, CELLS["e2"], 0)
    apart = [lab.published(host) for host in HOSTS]
    assert sum(map(len, apart)) == done  # each once, on one machine alone
    return done
