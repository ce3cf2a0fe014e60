"""A campaign on a Ray cluster whose nodes leave and join meanwhile."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

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
    return len(list(user.folder.glob("benchmark_results/study/**/cell.json")))
