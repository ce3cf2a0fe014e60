"""The base of ledgers that wrap another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.git.shared_files import SharedFiles
from benchfleet.ledger.base import Ledger


class ForwardingLedger(Ledger):
    """Passes on what a ledger need not have, to the ledger `inside`: a wrapper would else have the
    defaults of `Ledger` instead, which do nothing."""

    def __init__(self, inside: Ledger) -> None:
        self.inside = inside
        self.multi_host, self.hosted = inside.multi_host, inside.hosted
        self.default_lease_s = inside.default_lease_s
        self.stores_results, self.keeps_outcomes = inside.stores_results, inside.keeps_outcomes

    def report_progress(self, progress: WorkerProgress) -> None:
        self.inside.report_progress(progress)

    def progress(self) -> Sequence[WorkerProgress]:
        return self.inside.progress()

    def read_age(self) -> float:
        return self.inside.read_age()

    def listen(self, changed: Callable[[], None]) -> None:
        self.inside.listen(changed)

    def within(self, seconds: float) -> AbstractContextManager[None]:
        return self.inside.within(seconds)

    def problem(self) -> str:
        return self.inside.problem()

    def shared_files(self) -> SharedFiles | None:
        return self.inside.shared_files()

    def results_store(self) -> Any:
        return self.inside.results_store()

    def keep(self, ended: Sequence[tuple[Lease, Outcome]]) -> None:
        self.inside.keep(ended)

    def resend(self) -> None:
        self.inside.resend()

    def interrupt(self) -> None:
        self.inside.interrupt()

    def compact(self) -> int:
        return self.inside.compact()
