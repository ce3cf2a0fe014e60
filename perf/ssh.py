"""Slots behind SSH: what a no-op cell costs there, and how fast a large result comes home.

The host is this machine behind an sshd on loopback, so that what is measured is the way there and
back. `ssh for each cell` runs one command a cell over a connection that is open already.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from measure import BENCHFLEET, Timed, arguments, folder, interleaved, seconds, show

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from benchfleet.engines.openssh import OpenSsh, connections
from sshd import Sshd

CELLS = 200
SLOTS = 2
SIZE = 200 * 10**6  # bytes
NO_OP = f"""\
campaign: noop
defaults: {{repeats: {CELLS}}}
matrix:
  models: [{{name: m, adapter: mock}}]
  configs: {{dense: null}}
  benchmarks: [{{mock_benchmark: {{rows: 1}}}}]
"""
LARGE = """\
campaign: large
matrix:
  models: [{name: m, adapter: none}]
  configs: {dense: null}
  benchmarks: [{command: {name: large, argv: [sh, large.sh, "{scratch}", "{result}"]}}]
"""
WRITE = f"""\
head -c {SIZE} /dev/urandom > "$1/large.bin"
echo '{{"accuracy": 1}}' > "$2"
"""


def no_ops(work: Path, options: list[str]) -> Mapping[str, float]:
    """Seconds for each cell, from the first start to the last end of one."""
    return {"cell": ran(work, NO_OP, options) / CELLS}


def large(work: Path, options: list[str]) -> Mapping[str, float]:
    """Seconds until the result was made, brought here, digested, synced and published."""
    work.mkdir(parents=True)
    (work / "large.sh").write_text(WRITE)
    return {"result": ran(work, LARGE, options)}


def ran(work: Path, campaign: str, options: list[str]) -> float:
    """Run a campaign of its own; seconds from the first start to the last end of a cell."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "campaign.yaml").write_text(campaign)
    words = [*BENCHFLEET, "run", "campaign.yaml", *options, "--json", "--log-json"]
    seconds(["sh", "-c", f"{shlex.join(words)} 2> log.jsonl"], cwd=work)
    events = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
    begun = next(line["time"] for line in events if line["kind"] == "cell_started")
    ended = [line["time"] for line in events if line["kind"] == "cell_done"][-1]
    return float(ended - begun)


def an_ssh_each(work: Path, ssh: OpenSsh, sshd: Sshd) -> Mapping[str, float]:
    """A command for each cell over the shared connection, two at a time."""
    work.mkdir(parents=True)
    host = sshd.host()
    subprocess.run(ssh.argv(host, ["true"]), check=True)  # opens the connection
    (work / "out").mkdir()
    running: dict[subprocess.Popen[bytes], int] = {}
    begun = time.perf_counter()
    for cell in [*range(CELLS), None]:
        while running and (cell is None or len(running) >= SLOTS):
            ended = [process for process in running if process.poll() is not None]
            for process in ended:
                del running[process]
            if not ended:
                time.sleep(0.0005)
        if cell is not None:
            out = f"{work}/out/{cell}"
            words = ssh.argv(host, ["sh", "-c", f"echo {cell} > {out}.t && mv {out}.t {out}"])
            running[subprocess.Popen(words)] = cell
    return {"cell": (time.perf_counter() - begun) / CELLS}


def copied(work: Path, ssh: OpenSsh, sshd: Sshd) -> Mapping[str, float]:
    """The same bytes made there and streamed here over the shared connection, and synced."""
    work.mkdir(parents=True)
    words = ssh.argv(sshd.host(), ["head", "-c", str(SIZE), "/dev/urandom"])
    begun = time.perf_counter()
    with open(work / "large.bin", "wb") as file:
        subprocess.run(words, stdout=file, check=True)
    seconds(["sync", "-d", str(work / "large.bin")])
    return {"result": time.perf_counter() - begun}


def main() -> None:
    chosen = arguments(__doc__ or "", repeats=3)
    with folder(chosen) as work:
        sshd = Sshd(work)
        sshd.start()
        try:
            with connections(work / "known_hosts") as ssh:
                figures = interleaved(systems(work, sshd, ssh), chosen.repeats)
        finally:
            sshd.kill()
    for row in figures.values():
        row["throughput"] = SIZE / row["result"] / 1e6
    columns = {
        "cell": ("ms a cell", 1e3),
        "result": ("200 MB result s", 1),
        "throughput": ("MB/s", 1),
    }
    show(figures, columns, against="over SSH", by="cell", arguments=chosen)


def systems(work: Path, sshd: Sshd, ssh: OpenSsh) -> dict[str, Timed]:
    """What is measured, by name."""
    count = iter(range(10**6))

    def fresh() -> Path:
        return work / str(next(count))

    host = sshd.host()
    keys = {"address": host.address, "port": host.port, "user": host.user, "cpu_slots": SLOTS}
    keys |= {"identity": host.identity, "python": host.python, "folder": host.folder}
    machines = work / "machines.yaml"
    machines.write_text(json.dumps({"hosts": {"far": keys}}))
    local_options, remote_options = ["--cpu-slots", str(SLOTS)], ["--machines", str(machines)]
    return {
        "here": lambda: {**no_ops(fresh(), local_options), **large(fresh(), local_options)},
        "over SSH": lambda: {**no_ops(fresh(), remote_options), **large(fresh(), remote_options)},
        "ssh for each cell, cat for the result": lambda: {
            **an_ssh_each(fresh(), ssh, sshd),
            **copied(fresh(), ssh, sshd),
        },
    }


if __name__ == "__main__":
    main()
