"""A minimal model of the ledger contract, for `LedgerMachine`.

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
class CellModel:
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
    last: Lease | None = None  # of its last claim
    parts: int = 0  # of the split that is in force

    def holds(self, lease: Lease) -> bool:
        return self.state == "running" and self.writer == lease


@dataclass(kw_only=True)
class LedgerModel:
    """All cells, in the order in which they were enrolled, by fingerprint."""

    now: Callable[[], float]
    cells: dict[str, CellModel] = field(default_factory=dict)
    rights: dict[str, float] = field(default_factory=dict)  # when the newest lease of one runs out

    def enroll(self, cell: Cell, *, marked: bool) -> bool:
        """Whether it is new; `marked`: it is to have the path with its mark."""
        if cell.fingerprint in self.cells:
            return False
        plain = cell.path(marked=False)
        clash = any(
            f"{path}/".startswith(f"{plain}/") or f"{plain}/".startswith(f"{path}/")
            for path in (cell_model.path for cell_model in self.cells.values())
        )
        path = cell.path(marked=True) if clash or marked else plain
        self.cells[cell.fingerprint] = CellModel(cell=cell, path=path)
        return True

    def free(self, candidates: Sequence[str]) -> list[CellModel]:
        """Those of the candidates that may be claimed, in their order."""
        matches = (self.cells[name] for name in dict.fromkeys(candidates) if name in self.cells)
        return [one for one in matches if one.state == "pending" and one.ready <= self.now()]

    def claim(self, lease: Lease) -> CellModel:
        """The cell, which is held by this lease now."""
        cell_model = self.cells[lease.fingerprint]
        cell_model.state, cell_model.writer = "running", lease
        cell_model.last = lease
        cell_model.attempt += 1
        self._extend(cell_model)
        return cell_model

    def _extend(self, cell_model: CellModel) -> None:
        cell_model.expires = self.rights[cell_model.cell.fingerprint] = self.now() + LEASE

    def renew(self, lease: Lease) -> bool:
        """Whether it is held, and now for longer."""
        cell_model = self.cells[lease.fingerprint]
        if valid := cell_model.holds(lease):
            self._extend(cell_model)
        return valid

    def end(self, lease: Lease, outcome: Outcome) -> bool:
        """Whether the attempt ends so now, or did before."""
        cell_model = self.cells[lease.fingerprint]
        had = cell_model.outcome if cell_model.ended == lease else None
        again = had is not None and (had.state, had.digest) == (outcome.state, outcome.digest)
        good = cell_model.writer == lease
        if good:
            del self.rights[lease.fingerprint]
            cell_model.writer, cell_model.ended, cell_model.outcome = None, lease, outcome
            cell_model.state = outcome.state if outcome.retry_in is None else "pending"
            cell_model.ready = self.now() + (outcome.retry_in or 0.0)
            cell_model.tries += outcome.charged
            if outcome.retry_in is None:
                cell_model.parts = 0
        return again or good

    def release(self, lease: Lease) -> None:
        cell_model = self.cells[lease.fingerprint]
        if cell_model.holds(lease):
            del self.rights[lease.fingerprint]
            cell_model.state, cell_model.writer = "pending", None

    def reap(self) -> list[str]:
        """The cells whose lease ran out; its writer may still finish."""
        expired = [
            name
            for name, cell_model in self.cells.items()
            if cell_model.state == "running" and cell_model.expires <= self.now()
        ]
        for name in expired:
            self.cells[name].state = "pending"
        return expired

    def retry(self, fingerprint: str) -> None:
        cell_model = self.cells.get(fingerprint)
        if cell_model is not None and cell_model.state in FINAL_STATES:
            cell_model.state, cell_model.ready, cell_model.tries = "pending", 0.0, 0

    def split(self, lease: Lease, parts: int) -> None:
        """Only who claimed the cell last splits it, and only once until it ends."""
        cell_model = self.cells[lease.fingerprint]
        if cell_model.last == lease and not cell_model.parts:
            cell_model.parts = parts

    def cancel(self, fingerprint: str) -> None:
        cell_model = self.cells.get(fingerprint)
        if cell_model is not None:
            cell_model.parts = 0
        if cell_model is not None and cell_model.state not in FINAL_STATES:
            self.rights.pop(fingerprint, None)
            cell_model.state, cell_model.writer = "cancelled", None
