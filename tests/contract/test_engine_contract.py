"""Every engine keeps the contract."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from benchfleet.engines.base import EngineEvent
from benchfleet.engines.local import LocalEngine
from benchfleet.engines.openssh import connections
from benchfleet.engines.ssh import SshEngine
from benchfleet.machines.shares import examined
from benchfleet.runner.inbox import RealInbox
from benchfleet.testing.engine_contract import EngineContract
from sshd import Sshd


class InboxOfEvents(RealInbox):
    """As a runner takes them: what slots say is brought in while it waits."""

    put = RealInbox.post

    def get(self, *, timeout: float) -> EngineEvent:
        if (arrival := self.take(timeout)) is None:
            raise queue.Empty
        assert isinstance(arrival, EngineEvent)
        return arrival


class TestLocalEngine(EngineContract):
    def make_events(self) -> InboxOfEvents:
        self.inbox = InboxOfEvents()
        return self.inbox

    def make_engine(self, post: Callable[[EngineEvent], None]) -> LocalEngine:
        return LocalEngine(post, heartbeat=1.0, waiting=self.inbox)


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
        return SshEngine(post, hosts=hosts, ssh=ssh, examine=examined, heartbeat=1.0)
