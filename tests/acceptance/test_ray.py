"""A campaign on a Ray cluster whose nodes leave and join meanwhile."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from guide_runner import ROOT, guide_in
from ray_clusters import SETTINGS, RayNodes, ray_nodes
from sshd import Sshd
from watchers import free_port

from .conftest import COMMAND, User, samples_kept, until
from .splits import RESULT, Whole, declare, samples, score

# Nodes of Ray's own test cluster leave files open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

BOUND_S = 300.0  # a node starts a process per slot, which takes long on a busy machine
MANY = 300  # cells: enough that some are left at each of the steps below
STUDY = """\
campaign: study
defaults: {limits: {tries: 1}}
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks:
    - _hostile: {samples: 4, seconds: 0.03}
    - command: {name: deadly, argv: [PYTHON, KILLER, "{result}"]}
  include: [{benchmarks: _hostile, repeats: MANY}]
"""
KILLER = """\
import sys
import time
from pathlib import Path

import psutil

kills = Path(__file__).with_name("kills")
done = kills.read_text() if kills.exists() else ""
if len(done) == 2:
    Path(sys.argv[1]).write_text('{"score": 1}')
    raise SystemExit
kills.write_text(done + "x")
process = psutil.Process()
while "SlotActor" not in " ".join(process.cmdline()):
    process = process.parent()
process.kill()
time.sleep(600)
"""
MIXED = """\
campaign: study
matrix:
  models:
    - {name: m1, adapter: mock}
    - {name: large, adapter: mock, needs: {gpus: 1}}
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 4, act: wait, at: 2, shared: GATE}}]
  exclude: [{models: large, repeats: [1, 2]}]
defaults: {repeats: 3}
"""
LONG = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 9999, seconds: 0.1}}]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayNodes]:
    with ray_nodes(cpus=0) as made:
        yield made


@pytest.fixture
def nodes(cluster: RayNodes) -> Iterator[RayNodes]:
    """A cluster that has only its head."""
    yield cluster
    cluster.clear()


@pytest.mark.timeout(900)
def test_no_cell_is_lost_run_twice_or_charged_while_nodes_and_the_runner_die(
    user: User, nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes leave in both ways and one joins, and the runner is killed: the next one goes on after
    the last sample. A cell kills its actor twice. Standard output is JSON to the end, and nothing
    is left running. `make soak` runs it with every tenth request and answer of Ray lost."""
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "4")
    killer = user.write(KILLER, "killer.py")
    study = STUDY.replace("PYTHON", sys.executable).replace("KILLER", str(killer))
    user.write(study.replace("MANY", str(MANY)))
    first, second = nodes.add(cpus=2), nodes.add(cpus=2)
    run, notices = start(user, nodes, "first")
    with run:
        until(lambda: len(ended(notices)) >= 50, BOUND_S)
        nodes.add(cpus=2)
        nodes.remove(first, in_order=False)
        so_far = len(ended(notices))
        until(lambda: len(ended(notices)) >= so_far + 50, BOUND_S)
        run.kill()
    assert psutil.wait_procs(slots(user), timeout=60)[1] == []
    run, more = start(user, nodes, "second")
    with run:
        until(lambda: len(ended(more)) >= 50, BOUND_S)
        nodes.remove(second, in_order=True)
        out, _ = run.communicate(timeout=240)
    assert run.returncode == 0, more.read_text()[-2000:]
    assert json.loads(out)
    cells = ended(notices) + ended(more)
    assert len(cells) == len(set(cells))
    # One try is all that a cell has.
    assert user.json("status", "study.yaml")["success"] == done(user) == MANY + 1
    assert (user.folder / "kills").read_text() == "xx"
    provenances = [json.loads(file.read_text())["provenance"] for file in sealed(user)]
    assert max(one["resumed_samples"] for one in provenances) > 0
    assert psutil.wait_procs(slots(user), timeout=60)[1] == []


def test_a_killed_node_loses_only_its_part_of_a_split_cell(
    user: User, nodes: RayNodes, whole: Whole
) -> None:
    """The node killed is that of the part that began last: the other may have ended by then."""
    declare(user, 2, seconds=0.6)
    nodes.add(cpus=1)
    nodes.add(cpus=1)
    run, notices = start(user, nodes, "run")
    with run:
        until(lambda: len(begun(notices)) == 2 or run.poll() is not None, BOUND_S)
        nodes.remove(nodes.of(begun(notices)[-1]), in_order=False)
        run.communicate(timeout=240)
    assert run.returncode == 0, notices.read_text()[-2000:]
    assert (samples(user.results / RESULT), score(user.results / RESULT)) == whole
    assert list(user.published()) == [RESULT]
    used = user.json("status", "study.yaml")["used"]
    assert used["attempts"] == 4  # two parts, one of them twice, and the whole


def begun(notices: Path) -> list[int]:
    """The process of each cell's first sample, in the order of those samples."""
    slots: dict[str, int] = {}
    cells: dict[str, int] = {}
    for event in events(notices):
        if event["kind"] == "slot_ready":
            slots[event["slot"]] = event["data"]["hello"]["pid"]
        elif event["kind"] == "cell_progress":
            cells.setdefault(event["cell"], slots[event["slot"]])
    return list(cells.values())


def start(user: User, nodes: RayNodes, name: str) -> tuple[subprocess.Popen[str], Path]:
    """A run on the cluster, and the file of its notices."""
    words = ["run", "study.yaml", "--engine", "ray", "--ray-address", nodes.address, "--json"]
    notices = user.folder / f"{name}.jsonl"
    with notices.open("w") as errors:
        run = subprocess.Popen(
            [*COMMAND, *words, "--log-json"], cwd=user.folder, env=user.environment, text=True,
            stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    user.started.append(run)
    return run, notices


def test_one_run_uses_ray_and_ssh_and_this_machine_and_reports_what_fits_none(
    user: User, nodes: RayNodes, sshd: Sshd
) -> None:
    """The Ray node has no benchfleet of its own: the run names it, or brings its own there."""
    gate = user.write("", "gate")
    user.write(MIXED.replace("GATE", str(gate)))
    host = sshd.host("lab1", cpu_slots=1)
    names = ("address", "port", "user", "identity", "python", "folder", "cpu_slots")
    ray: dict[str, Any] = {"address": nodes.address, "cpu_slots": 1, "memory": "100MB"}
    inventory = {
        "here": {"cpu_slots": 1},
        "hosts": {"lab1": {name: getattr(host, name) for name in names}},
        "engines": {"cluster": {"ray": ray}},
    }
    words = ("run", "study.yaml", "--machines", "machines.yaml")
    with nodes.without_benchfleet(user.folder / "environment", cpus=2):
        user.write(json.dumps(inventory), "machines.yaml")
        run = user.start(*words, "--hosts", "cluster")
        refused, errors = run.communicate(timeout=240)
        assert run.returncode == 1, refused + errors
        assert "No module named 'benchfleet'" in refused
        assert "set 'bootstrap: true' of the engine" in refused
        ray["bootstrap"] = True
        user.write(json.dumps(inventory), "machines.yaml")
        run = user.start(*words)
        until(lambda: samples_kept(user) == 6 or run.poll() is not None, BOUND_S)  # three at a time
        gate.unlink()
        out, errors = run.communicate(timeout=240)
    assert run.returncode == 1, out + errors
    assert "needs 1 GPU" in out + errors
    provenances = [json.loads(file.read_text())["provenance"] for file in sealed(user)]
    devices = sorted((one["device"] for one in provenances), key=len)
    assert devices[:2] == ["cpu:0", "lab1/cpu:0"]
    assert len(devices) == 3


def test_the_guide_does_what_it_says(user: User, nodes: RayNodes) -> None:
    nodes.add(cpus=4)
    with guide_in(user.folder, RAY_ADDRESS=nodes.address, **SETTINGS) as guide:
        guide.run(ROOT / "docs/guides/ray.md")


def test_results_in_the_folder_of_a_ray_job_are_refused(user: User) -> None:
    """Ray copies --working-dir there, and the copy is lost with the cluster."""
    folder = user.folder / "runtime_resources" / "working_dir_files" / "_ray_pkg_1"
    folder.mkdir(parents=True)
    inside = User(folder)
    inside.write(LONG)
    refused = inside.run("run", "study.yaml", "--cpu-slots", "1", code=2)
    assert "--results" in refused.stderr
    assert "shared place" in refused.stderr
    results = ("--results", str(user.folder / "results"))
    refused = inside.run("run", "study.yaml", *results, "--ledger", "ledger.db", code=2)
    assert "--ledger" in refused.stderr


def test_a_wrong_address_and_a_wrong_setting_are_refused_with_a_remedy(user: User) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    user.write(LONG)
    refused = user.run(
        "run", "study.yaml", "--engine", "ray", "--ray-address", "ray://x:1", code=None
    )
    assert refused.returncode not in (0, 1)
    assert "ray job submit" in refused.stderr
    user.write(f"{LONG}engine: {{ray: {{runtime_env: {{pips: [torch]}}}}}}\n")
    refused = user.run("run", "study.yaml", code=2)
    assert "runtime_env has no field 'pips'; did you mean 'pip'?" in refused.stderr
    nobody = f"127.0.0.1:{free_port()}"  # Ray itself tries there for a quarter of an hour
    user.write(LONG)
    sought = ("--engine", "ray", "--ray-address", nobody)
    refused = user.run("run", "study.yaml", *sought, code=2)
    assert f"no Ray cluster can be used at {nobody}: Connection refused; start" in refused.stderr


def test_the_loss_of_the_head_ends_the_run_in_good_order_with_the_reason(
    user: User, nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of this cluster."""
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    user.write(LONG)
    nodes.add(cpus=2)
    run = user.start("run", "study.yaml", "--engine", "ray", "--ray-address", nodes.address)
    until(lambda: samples_kept(user) >= 2, BOUND_S)
    nodes.kill_head()
    out, errors = run.communicate(timeout=240)
    assert run.returncode == 1, out + errors
    assert "ended early: no machine can be used" in out
    assert "continue once that is fixed: benchfleet run study.yaml --engine ray" in out
    assert "the head of the Ray cluster did not answer for 5 s" in out
    assert "The program will terminate" not in errors  # Ray's own end of a driver
    assert psutil.wait_procs(slots(user), timeout=60)[1] == []
    status = user.json("status", "study.yaml")
    assert (status["pending"], status["running"]) == (1, 0)


def ended(notices: Path) -> list[str]:
    """The cells of which the run said that they are done."""
    return [event["cell"] for event in events(notices) if event["kind"] == "cell_done"]


def events(notices: Path) -> list[dict[str, Any]]:
    """What the run said so far, in whole lines."""
    lines = notices.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line[0] == "{" and line[-1] == "\n"]


def done(user: User) -> int:
    """The cells with a result."""
    return len(sealed(user))


def sealed(user: User) -> list[Path]:
    return list(user.folder.glob("benchmark_results/study/**/cell.json"))


def slots(user: User) -> list[psutil.Process]:
    """The slots that recorded a sample, as far as they still run."""
    alive = []
    for file in user.folder.rglob("samples.jsonl"):
        for line in file.read_text().splitlines()[:1]:
            with contextlib.suppress(psutil.NoSuchProcess, ValueError):
                alive.append(psutil.Process(json.loads(line)["columns"]["pid"]))
    return list(set(alive))
