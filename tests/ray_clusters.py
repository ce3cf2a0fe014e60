"""Ray clusters of several nodes on this machine."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from watchers import ends_with_us

# Read when ray is imported, here and in the processes of the cluster.
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


# Ray's own way to lose every tenth request and every tenth answer.
LOST_CALLS = {
    "RAY_testing_rpc_failure": '{"*":{"num_failures":-1,"req_failure_prob":10,'
    '"resp_failure_prob":10,"in_flight_failure_prob":0}}'
}


class RayNodes:
    """A cluster whose nodes come and go."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._has_head = True
        self.address: str = cluster.address

    def add(self, *, cpus: int, gpus: int = 0, **more: Any) -> Any:
        """A node that has joined; `more` as Ray's own class of a node takes it."""
        node = self._cluster.add_node(num_cpus=cpus, num_gpus=gpus, **more)
        self._cluster.wait_for_nodes()
        return node

    @contextmanager
    def without_benchfleet(self, folder: Path, *, cpus: int) -> Iterator[None]:
        """A node whose interpreter has all packages of this one, but no benchfleet."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        # Links of editable installations in that folder are not followed from here.
        (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        words = ["start", "--address", self.address, "--num-cpus", str(cpus), "--block"]
        with open(folder / "node.log", "ab") as log:
            node = subprocess.Popen(
                [folder / "bin/python", "-m", "ray.scripts.scripts", *words], stdout=log, stderr=log
            )
        watcher = ends_with_us(f"kill {node.pid}")
        try:
            yield
        finally:
            watcher.communicate()
            node.wait()

    def kill_head(self) -> None:
        """SIGKILL for all processes of the head. The cluster is of no use after it."""
        self._has_head = False
        for processes in self._cluster.head_node.all_processes.values():
            for one in processes:
                one.process.kill()
                one.process.wait()

    def of(self, pid: int) -> Any:
        """The node under which this process runs."""
        above = {one.pid for one in psutil.Process(pid).parents()}
        for node in self._cluster.worker_nodes:
            (raylet,) = node.all_processes["raylet"]
            if raylet.process.pid in above:
                return node
        raise LookupError(f"no node runs process {pid}")

    def clear(self) -> None:
        """End all nodes but the head."""
        for node in list(self._cluster.worker_nodes):
            self.remove(node, in_order=self._has_head)

    def forget(self) -> None:
        """Hold the cluster no longer."""
        del self._cluster

    def remove(self, node: Any, *, in_order: bool) -> None:
        """End a node: in order, or by SIGKILL."""
        self._cluster.remove_node(node, allow_graceful=in_order)


@contextmanager
def ray_nodes(*, cpus: int, gpus: int = 0) -> Iterator[RayNodes]:
    """A cluster of a head with so much; this process becomes its driver where an engine connects.
    Skips the test where Ray is not installed."""
    os.environ.update(SETTINGS)
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        head = {"num_cpus": cpus, "num_gpus": gpus, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = RayNodes(cluster)
    try:
        yield nodes
    finally:
        ray.shutdown()  # Ray refuses to end the node of a driver, which would hide what failed
        cluster.shutdown()
        del cluster
        nodes.forget()
        with warnings.catch_warnings():  # the cluster leaves files open
            warnings.simplefilter("ignore")
            gc.collect()
