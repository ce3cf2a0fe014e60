"""Which cells of a shared ledger may run here: what it tells may name plugins and parameters, and
no code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from benchfleet import registry
from benchfleet.domain.attempt import CellRecord, Claim
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.name_patterns import matches
from benchfleet.errors import BenchfleetError, ResultsError
from benchfleet.results.layout import check_path


@dataclass(frozen=True, kw_only=True)
class VettedCells:
    """The cells of a ledger, sorted by whether this host runs them."""

    cells: tuple[Cell, ...]
    # the reason → ids of cells
    rejected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ClaimPolicy:
    """What this host takes of a ledger."""

    models: tuple[str, ...] = ()  # patterns of their names; () for all
    trusted: bool = False  # cells may bring code

    def accepts(self, cell: Cell) -> bool:
        """Whether its model is one of those that this host takes."""
        return matches(self.models, cell.model.name)

    def sort(self, records: Iterable[CellRecord]) -> VettedCells:
        """Sort the cells, which the records bring along."""
        cells: list[Cell] = []
        rejected: dict[str, list[str]] = {}
        for record in records:
            if (cell := record.cell) is None:
                continue
            if why := self._why_not(record, cell):
                rejected.setdefault(why, []).append(record.id)
            else:
                cells.append(cell)
        return VettedCells(
            cells=tuple(cells), rejected={why: tuple(ids) for why, ids in rejected.items()}
        )

    def _why_not(self, record: CellRecord, cell: Cell) -> str:
        if not self.accepts(cell):
            return f"its model does not match {', '.join(self.models)}"
        if cell.fingerprint != record.fingerprint:
            return "what the ledger holds of it is not what its fingerprint says"
        try:
            check_path(record.path)
        except ResultsError as error:
            return str(error)
        return (
            self._of_model(cell.model)
            or self._of_config(cell.config)
            or self._of_workload(cell.workload)
        )

    def _of_model(self, model: Model) -> str:
        if model.python and not self.trusted:
            return f"it names code: the interpreter {model.python}"
        key = "model", model.load_key, model.source
        if key not in self._reasons:
            why = self._check_plugin("models", model.adapter, model, model.adapter_version)
            if not why and Path(model.source).is_absolute() and not Path(model.source).exists():
                why = f"its model is not on this host: {model.source}"
            self._reasons[key] = why
        return self._reasons[key]

    def _of_workload(self, work: Workload) -> str:
        key = "workload", work.canonical, repr(work.outside)
        if key not in self._reasons:
            self._reasons[key] = self._check_plugin(
                "benchmarks", work.benchmark, work, work.version
            )
        return self._reasons[key]

    def _of_config(self, config: Config) -> str:
        key = "config", config.canonical
        if key not in self._reasons:
            self._reasons[key] = self._of_steps(config.attention)
        return self._reasons[key]

    def _of_steps(self, steps: Iterable[AttentionStep]) -> str:
        try:
            reasons = (registry.version_mismatch("attention", s.name, s.version) for s in steps)
            return next(filter(None, reasons), "")
        except BenchfleetError as error:
            return str(error)

    def _check_plugin(
        self,
        family: registry.Family,
        name: str,
        part: Model | Workload,
        version: int | str | None,
    ) -> str:
        runs_here = not (isinstance(part, Model) and part.python)
        try:
            code: str = registry.load(family, name, runs_here=runs_here).code(part)
            if why := registry.version_mismatch(family, name, version, runs_here=runs_here):
                return why
        except BenchfleetError as error:
            return str(error)
        what = code or ("what is for tests alone" if name.startswith("_") else "")
        return f"it names code: {what}" if what and not self.trusted else ""

    @cached_property
    def _reasons(self) -> dict[tuple[str, ...], str]:
        return {}


def with_local_definition(claim: Claim, local: Cell) -> Claim:
    """The claim with its cell as this runner knows it: only what the cell needs and may take is
    the ledger's to change. Others' paths to model and code are no good here, and not trusted."""
    if claim.cell is local:
        return claim
    claimed = claim.cell
    return replace(
        claim,
        cell=replace(local, need=claimed.need, limits=claimed.limits, priority=claimed.priority),
    )
