"""The context of one runner, shared by its components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchfleet.domain.attempt import RunnerId
from benchfleet.engines.base import Engine
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.runner.attempt.heartbeat import LeaseHeartbeat
from benchfleet.runner.events import EventQueue
from benchfleet.runner.resources.local_host import LocalHost


@dataclass(frozen=True, kw_only=True)
class RunnerContext:
    """Who runs cells, where, and with what."""

    runner: RunnerId
    local_host: LocalHost = LocalHost()  # noqa: RUF009 - frozen
    ledger: Ledger
    heartbeat: LeaseHeartbeat  # of the leases that the ledger gave it
    engine: Engine
    inbox: EventQueue  # of all events; also the clock
    layout: Layout  # where results go
    random: Callable[[], float]  # from 0 to 1, so that runners do not act in step
