"""Every engine keeps the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from benchfleet.engines.base import EngineEvent
from benchfleet.engines.local import LocalEngine
from benchfleet.engines.openssh import connections
from benchfleet.engines.ssh import SshEngine
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.testing.engine_contract import EngineContract
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
