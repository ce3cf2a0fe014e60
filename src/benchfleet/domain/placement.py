"""Where cells may run, by what machines' reports say, and where a plan has them run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchfleet.domain.humanize import counted

from .cell import Cell
from .conditions import Facts
from .eligibility import Eligibility

ANYWHERE: frozenset[str] = frozenset()
_NO_REASONS: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Reported:
    """What is known of a machine."""

    facts: Facts
    by: str  # what tells it, as people call it


@dataclass(frozen=True, kw_only=True)
class KeptOff:
    """Cells that a machine may not have, for one reason."""

    host: str
    why: str
    cells: int
    models: tuple[str, ...]

    def __str__(self) -> str:
        cells = counted(self.cells, "cell")
        return f"none of {cells} of {', '.join(self.models)}: {self.why}"

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {**asdict(self), "models": list(self.models)}


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What binds cells to hosts, by the names that a runner has for them (``""``: its own).

    Eligibility rules are constraints; the plan is a preference. A host without a report may run
    any cell.
    """

    rules: Eligibility | None = None
    machines: Mapping[str, Reported] = field(default_factory=dict)
    variants: Collection[str] = ()  # names of the models that stand in for others
    # fingerprint → machine of the plan
    planned_hosts: Mapping[str, str] = field(default_factory=dict)
    # fingerprint → why the runner's own host cannot have the cell's data
    missing_data: Mapping[str, str] = field(default_factory=dict)
    local_host: str = ""  # what the runner's own machine is called by others
    notes: tuple[str, ...] = ()  # reports that could not be used
    _reasons: dict[tuple[str, str], tuple[frozenset[str], Mapping[str, str]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    _with_missing: dict[tuple[str, str, str], tuple[frozenset[str], Mapping[str, str]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def binds(self) -> bool:
        """Whether it tells machines apart at all."""
        return bool(self.planned_hosts or self.missing_data or (self.rules and self.machines))

    def barred(self, cell: Cell) -> frozenset[str]:
        """The machines that may not have the cell."""
        return self._of(cell)[0]

    def why_not(self, cell: Cell) -> Mapping[str, str]:
        """Why these may not."""
        return self._of(cell)[1]

    def kept_off(
        self, cells: Iterable[Cell], hosts: Collection[str] | None = None
    ) -> list[KeptOff]:
        """What of these cells these machines (None: all) may not have."""
        counts: Counter[tuple[str, str]] = Counter()
        models: dict[tuple[str, str], dict[str, None]] = {}
        for cell in cells if self.missing_data or (self.rules and self.machines) else ():
            for key in self.why_not(cell).items():
                if hosts is None or key[0] in hosts:
                    counts[key] += 1
                    models.setdefault(key, {})[cell.model.name] = None
        return [
            KeptOff(host=host, why=why, cells=count, models=tuple(models[host, why]))
            for (host, why), count in sorted(counts.items())
        ]

    def unreported(self, cells: Iterable[Cell], hosts: Collection[str]) -> list[str]:
        """Notes on hosts without a report while others have one; names may differ."""
        missing = sorted(set(hosts) - self.machines.keys())
        if not (missing and self.machines and any(map(self._placed, cells))):
            return []
        names = ", ".join(sorted(filter(None, self.machines)))
        others = f"the reports are of {names}" if names else "no machine has a report"
        return [
            f"no report of {host or self.local_host or 'this machine'}: no rule keeps a cell off "
            f"it, and no plan gives it one; {others}. {_remedy(host)}"
            for host in missing
        ]

    def _placed(self, cell: Cell) -> bool:
        variant = cell.model.name in self.variants
        return cell.fingerprint in self.planned_hosts or bool(
            self.rules
            and self.rules.concerns(phase=cell.phase, model=cell.model.name, variant=variant)
        )

    def _of(self, cell: Cell) -> tuple[frozenset[str], Mapping[str, str]]:
        hosts, reasons = self._by_rules(cell)
        if (missing := self.missing_data.get(cell.fingerprint)) is None:
            return hosts, reasons
        key = cell.phase, cell.model.name, missing
        if (cached := self._with_missing.get(key)) is None:
            cached = self._with_missing[key] = hosts | {""}, {**reasons, "": missing}
        return cached

    def _by_rules(self, cell: Cell) -> tuple[frozenset[str], Mapping[str, str]]:
        if self.rules is None or not self.machines:
            return ANYWHERE, _NO_REASONS
        phase, model = cell.phase, cell.model.name
        if (cached := self._reasons.get((phase, model))) is None:
            variant = model in self.variants
            reasons = {
                name: f"{why} ({one.by})"
                for name, one in self.machines.items()
                if (why := self.rules.barred(one.facts, phase=phase, model=model, variant=variant))
            }
            hosts = frozenset(reasons)
            same = next((one for one, _ in self._reasons.values() if one == hosts), hosts)
            cached = self._reasons[phase, model] = same, reasons
        return cached


def _remedy(host: str) -> str:
    """What to do about a machine without a report; ``""`` is the runner's own."""
    how = "call it so in the inventory" if host else "say so by BENCHFLEET_HOST"
    more = " --machines" if host else ""
    return f"Is it one of these, {how}; else `benchfleet probe{more} --ledger` it"
