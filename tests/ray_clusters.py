"""Ray clusters of several nodes on this machine."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

# Read when ray is imported, here and in the processes of the cluster.
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class RayNodes:
    """A cluster whose nodes come and go."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.address: str = cluster.address

    def add(self, *, cpus: int, gpus: int = 0, name: str = "") -> Any:
        """A node that has joined."""
        named = {"node_name": name} if name else {}
        node = self._cluster.add_node(num_cpus=cpus, num_gpus=gpus, **named)
        self._cluster.wait_for_nodes()
        return node

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
    pytest.importorskip("ray", reason="Ray is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        head = {"num_cpus": cpus, "num_gpus": gpus, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = RayNodes(cluster)
    try:
        yield nodes
    finally:
        cluster.shutdown()
        del cluster
        nodes.forget()
        with warnings.catch_warnings():  # the cluster leaves files open
            warnings.simplefilter("ignore")
            gc.collect()
