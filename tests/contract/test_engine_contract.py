"""Every engine keeps the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from benchfleet.domain.host import Host
from benchfleet.engines.base import EngineEvent
from benchfleet.engines.local import LocalEngine
from benchfleet.engines.openssh import connections
from benchfleet.engines.ray_cluster import RayCluster
from benchfleet.engines.ray_engine import RayEngine
from benchfleet.engines.ssh import SshEngine
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.testing.engine_contract import EngineContract
from ray_clusters import ray_nodes
from sshd import Sshd


class TestLocalEngine(EngineContract):
    def make_engine(self, post: Callable[[EngineEvent], None]) -> LocalEngine:
        return LocalEngine(post, heartbeat=1.0)


class TestSshEngine(EngineContract):
    host = "lab1"

    @pytest.fixture(autouse=True)
    def _reached(self, sshd: Sshd) -> Iterator[None]:
        self.sshd = sshd
        with ExitStack() as self.stack:
            yield

    def make_engine(self, post: Callable[[EngineEvent], None]) -> SshEngine:
        ssh = self.stack.enter_context(connections(self.sshd.folder / "known_hosts"))
        hosts = [self.sshd.host(self.host)]
        return SshEngine(post, hosts=hosts, ssh=ssh, examine=capacity_from_facts, heartbeat=1.0)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayCluster]:
    with ray_nodes(cpus=8, gpus=8) as nodes:
        cluster = RayCluster(nodes.address)
        yield cluster
        cluster.disconnect()


class TestRayEngine(EngineContract):
    chooses_gpus = True

    @pytest.fixture(autouse=True)
    def _reached(self, ray_cluster: RayCluster) -> None:
        self.host = ray_cluster.nodes()[0].name

    def make_engine(self, post: Callable[[EngineEvent], None]) -> RayEngine:
        like = Host(name="ray")
        cluster = RayCluster()  # leaves the connection to the one of the module
        return RayEngine(
            post, cluster=cluster, like=like, examine=capacity_from_facts, heartbeat=1.0
        )
