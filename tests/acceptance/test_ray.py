"""A campaign on a Ray cluster whose nodes leave and join meanwhile."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ray_clusters import RayNodes, ray_nodes

from .conftest import COMMAND, User, until

# Nodes of Ray's own test cluster leave files open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

STUDY = """\
campaign: study
defaults: {repeats: 30, limits: {tries: 1}}
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 12, seconds: 0.2}}]
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with ray_nodes(cpus=0) as made:
        yield made


def test_no_cell_is_lost_or_charged_while_nodes_leave_and_join(user: User, nodes: RayNodes) -> None:
    """And standard output is JSON to the end."""
    user.write(STUDY)
    first, second = nodes.add(cpus=4), nodes.add(cpus=4)
    words = ["run", "study.yaml", "--engine", "ray", "--ray-address", nodes.address, "--json"]
    run = subprocess.Popen(
        [*COMMAND, *words], cwd=user.folder, env=user.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        until(lambda: done(user) >= 2)
        third = nodes.add(cpus=4)
        nodes.remove(first, in_order=False)
        so_far = done(user)
        until(lambda: done(user) >= so_far + 4)
        nodes.remove(second, in_order=True)
        out, err = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == 0, err
    json.loads(out)
    assert done(user) == 30
    nodes.remove(third, in_order=True)


def test_a_killed_runner_leaves_nothing_running_and_the_next_goes_on_after_the_last_sample(
    user: User, nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "10")
    user.write(STUDY.replace("repeats: 30", "repeats: 4"))
    node = nodes.add(cpus=4)
    words = ["run", "study.yaml", "--engine", "ray", "--ray-address", nodes.address]
    run = user.start(*words)
    until(lambda: len(slots(user)) >= 2)
    run.kill()
    run.wait(60)
    assert psutil.wait_procs(slots(user), timeout=60)[1] == []
    user.run(*words)
    assert done(user) == 4
    cells = [json.loads(file.read_text()) for file in sealed(user)]
    assert max(cell["provenance"]["resumed_samples"] for cell in cells) > 0
    nodes.remove(node, in_order=True)


def test_a_cell_that_fits_no_node_is_reported_with_the_reason_at_once(
    user: User, nodes: RayNodes
) -> None:
    user.write(STUDY.replace("adapter: mock", "adapter: mock, needs: {gpus: 1}"))
    node = nodes.add(cpus=4)
    words = ["run", "study.yaml", "--engine", "ray", "--ray-address", nodes.address]
    refused = user.run(*words, code=1)
    assert "needs 1 GPU" in refused.stdout + refused.stderr
    nodes.remove(node, in_order=True)


def test_a_cluster_that_is_not_there_is_refused_with_a_remedy(user: User) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    user.write(STUDY)
    refused = user.run(
        "run", "study.yaml", "--engine", "ray", "--ray-address", "ray://x:1", code=None
    )
    assert refused.returncode not in (0, 1)
    assert "ray job submit" in refused.stderr


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
