"""What a ledger is to know of its cells, as simply as it can be said: for `LedgerMachine`.

The model knows no tokens: it remembers which lease may still write to a cell, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.state import FINAL_STATES, State

LEASE = 60.0  # seconds


@dataclass(kw_only=True)
class Known:
    """A cell as the model has it; times are seconds on the clock of the ledger."""

    cell: Cell
    path: str
    state: State = "pending"
    ready: float = 0.0
    expires: float = 0.0
    attempt: int = 0
    tries: int = 0
    writer: Lease | None = None  # the one lease that may still finish
    ended: Lease | None = None  # the last one that did
    outcome: Outcome | None = None
    token: int = 0  # the largest that was seen

    def holds(self, lease: Lease) -> bool:
        return self.state == "running" and self.writer == lease


@dataclass(kw_only=True)
class LedgerModel:
    """All cells, in the order in which they were enrolled, by fingerprint."""

    now: Callable[[], float]
    known: dict[str, Known] = field(default_factory=dict)
    rights: dict[str, float] = field(default_factory=dict)  # when the newest lease of one runs out

    def enroll(self, cell: Cell, *, marked: bool) -> bool:
        """Whether it is new; `marked`: it is to have the path with its mark."""
        if cell.fingerprint in self.known:
            return False
        plain = cell.path(marked=False)
        clash = any(
            f"{path}/".startswith(f"{plain}/") or f"{plain}/".startswith(f"{path}/")
            for path in (known.path for known in self.known.values())
        )
        path = cell.path(marked=True) if clash or marked else plain
        self.known[cell.fingerprint] = Known(cell=cell, path=path)
        return True

    def free(self, candidates: Sequence[str]) -> list[Known]:
        """Those of the candidates that may be claimed, in their order."""
        found = (self.known[name] for name in dict.fromkeys(candidates) if name in self.known)
        return [one for one in found if one.state == "pending" and one.ready <= self.now()]

    def claim(self, lease: Lease) -> Known:
        """The cell, which is held by this lease now."""
        known = self.known[lease.fingerprint]
        known.state, known.writer = "running", lease
        known.attempt += 1
        self._extend(known)
        return known

    def _extend(self, known: Known) -> None:
        known.expires = self.rights[known.cell.fingerprint] = self.now() + LEASE

    def renew(self, lease: Lease) -> bool:
        """Whether it is held, and now for longer."""
        known = self.known[lease.fingerprint]
        if held := known.holds(lease):
            self._extend(known)
        return held

    def end(self, lease: Lease, outcome: Outcome) -> bool:
        """Whether the attempt ends so now, or did before."""
        known = self.known[lease.fingerprint]
        had = known.outcome if known.ended == lease else None
        again = had is not None and (had.state, had.digest) == (outcome.state, outcome.digest)
        good = known.writer == lease
        if good:
            del self.rights[lease.fingerprint]
            known.writer, known.ended, known.outcome = None, lease, outcome
            known.state = outcome.state if outcome.retry_in is None else "pending"
            known.ready = self.now() + (outcome.retry_in or 0.0)
            known.tries += outcome.charged
        return again or good

    def release(self, lease: Lease) -> None:
        known = self.known[lease.fingerprint]
        if known.holds(lease):
            del self.rights[lease.fingerprint]
            known.state, known.writer = "pending", None

    def reap(self) -> list[str]:
        """The cells whose lease ran out; its writer may still finish."""
        expired = [
            name
            for name, known in self.known.items()
            if known.state == "running" and known.expires <= self.now()
        ]
        for name in expired:
            self.known[name].state = "pending"
        return expired

    def retry(self, fingerprint: str) -> None:
        known = self.known.get(fingerprint)
        if known is not None and known.state in FINAL_STATES:
            known.state, known.ready, known.tries = "pending", 0.0, 0

    def cancel(self, fingerprint: str) -> None:
        known = self.known.get(fingerprint)
        if known is not None and known.state not in FINAL_STATES:
            self.rights.pop(fingerprint, None)
            known.state, known.writer = "cancelled", None
