"""The axes of a campaign, the rules over them, and their product."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from .cell import Cell, Config, Fingerprint, Kwargs, Limits, Model, Workload
from .resource import Need

AXES = ("models", "configs", "benchmarks", "subsets", "repeats")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A condition on axes, by name or glob; ``!`` in front of a pattern negates it."""

    models: tuple[str, ...] = ()  # () says nothing about this axis
    configs: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    subsets: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()

    def matches(self, cell: Cell) -> bool:
        """Whether every axis that the rule speaks of agrees with the cell."""
        named = (
            (self.models, cell.model.name),
            (self.configs, cell.config.name),
            (self.benchmarks, cell.workload.name),
            (self.subsets, cell.workload.subset or ""),
            (self.repeats, str(cell.repeat)),
            (self.phases, cell.phase),
        )
        return all(matches(patterns, name) for patterns, name in named if patterns)


def matches(patterns: tuple[str, ...], name: str) -> bool:
    """Any plain pattern matches (or there is none), and no negated one does."""
    plain = [p for p in patterns if not p.startswith("!")]
    excluded = [p[1:] for p in patterns if p.startswith("!")]
    included = not plain or any(_matches(p, name) for p in plain)
    return included and not any(_matches(p, name) for p in excluded)


def _matches(pattern: str, name: str) -> bool:
    """By name first: a name may hold the letters that a glob reads otherwise."""
    return pattern == name or fnmatch.fnmatchcase(name, pattern)


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """A model with what the campaign says of it beyond its identity."""

    model: Model
    need: Need = field(default_factory=Need)
    limits: Limits | None = None  # None for the matrix's own
    priority: int = 0
    workloads: tuple[Workload, ...] = ()  # as asked of this model; () for the matrix's own
    size: int = 0  # bytes of its weights as declared; 0: not stated
    variants: tuple[ModelEntry, ...] = ()  # what may stand in for it, the best first


@dataclass(frozen=True, kw_only=True)
class ConfigOverrides:
    """What a config changes of every model and workload, beside its attention."""

    model_kwargs: Kwargs = field(default_factory=dict)
    generation: Kwargs = field(default_factory=dict)

    def apply_to_model(self, model: Model) -> Model:
        """The model with these kwargs over its own."""
        if not self.model_kwargs:
            return model
        return replace(model, model_kwargs={**model.model_kwargs, **self.model_kwargs})

    def apply_to_workload(self, workload: Workload) -> Workload:
        """The workload with these generation kwargs over its own."""
        if not self.generation:
            return workload
        return replace(workload, generation={**workload.generation, **self.generation})


@dataclass(frozen=True, kw_only=True)
class Include:
    """Cells added to the product (or given other repeats): those that the rule matches."""

    rule: Rule
    repeats: int


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """models × configs × workloads × repeats, less `exclude`, plus `include`; and the matrices of
    a campaign's phases."""

    models: tuple[ModelEntry, ...]
    configs: tuple[Config, ...]
    workloads: tuple[Workload, ...]
    overrides: Mapping[str, ConfigOverrides] = field(default_factory=dict)  # by config
    repeats: int = 1
    limits: Limits = field(default_factory=Limits)
    exclude: tuple[Rule, ...] = ()
    include: tuple[Include, ...] = ()
    only: tuple[Rule, ...] = ()  # of all these, the cells that some rule matches; () for all
    without: tuple[Rule, ...] = ()  # and of those, the cells that none of these does
    phase: str = ""  # that the cells are of
    parts: tuple[Matrix, ...] = ()  # of the phases, whose cells come after its own

    def expand(self) -> list[Cell]:
        """Every cell once, model by model, so that neighbours share what is loaded.

        Cells with equal content are one cell; an `include` that asks for more repeats of a
        cell replaces its plain form, so that all its repeats lie side by side. A cell of a phase
        is not one of the campaign's own beside it.
        """
        if self.parts:
            phased = [cell for part in self.parts for cell in part.expand()]
            in_phases = {cell.fingerprint for cell in phased}
            own = replace(self, parts=()).expand()
            return [*(cell for cell in own if cell.fingerprint not in in_phases), *phased]
        cells: dict[Fingerprint, Cell] = {}
        for cell in self.product(self.repeats):
            if not any(rule.matches(cell) for rule in self.exclude):
                cells[cell.fingerprint] = cell
        for include in self.include:
            for cell in self.product(include.repeats):
                if include.rule.matches(cell) and (cell.repeats or cell.fingerprint not in cells):
                    cells[cell.fingerprint] = cell
        order = {entry.model.name: index for index, entry in enumerate(self.models)}
        ordered = sorted(cells.values(), key=lambda cell: order[cell.model.name])
        return select_cells(ordered, only=self.only, exclude=self.without)

    def forms(self, cell: Cell) -> list[tuple[ModelEntry, Cell]]:
        """The ways to run a cell of this matrix, the best first: as it is, and with each variant
        of its model instead. Of these one is run."""
        for part in self.parts:
            if part.phase == cell.phase:
                return part.forms(cell)
        entry = next(one for one in self.models if one.model.name == cell.model.name)
        if not entry.variants:
            return [(entry, cell)]
        overrides = self._overrides(cell.config)
        index = [
            replace(overrides.apply_to_workload(work), limit=None)
            for work in entry.workloads or self.workloads
        ].index(replace(cell.workload, limit=None))
        forms = [(entry, cell)]
        for variant in entry.variants:
            declared = (variant.workloads or self.workloads)[index]
            workload = overrides.apply_to_workload(declared)
            if cell.workload.limit is not None:
                workload = replace(workload, limit=cell.workload.limit)
            other = replace(
                cell,
                model=overrides.apply_to_model(variant.model),
                workload=workload,
                need=variant.need,
                limits=variant.limits or self.limits,
            )
            forms.append((variant, other))
        return forms

    @property
    def has_variants(self) -> bool:
        """Whether any of its models, or of its parts', has variants."""
        return any(entry.variants for entry in self.models) or any(
            part.has_variants for part in self.parts
        )

    @property
    def variants(self) -> list[str]:
        """The names of all models that may stand in for others."""
        own = [variant.model.name for entry in self.models for variant in entry.variants]
        return list(dict.fromkeys([*own, *(name for one in self.parts for name in one.variants)]))

    def expand_as(self, form_by_cell: Mapping[str, str]) -> list[Cell]:
        """Every cell once, in the form that is chosen for it, both by fingerprint; the others as
        they are."""
        cells = []
        for cell in self.expand():
            form_id = form_by_cell.get(cell.fingerprint)
            forms = self.forms(cell) if form_id else []
            cells.append(next((form for _, form in forms if form.fingerprint == form_id), cell))
        return cells

    def _overrides(self, config: Config) -> ConfigOverrides:
        return self.overrides.get(config.name) or ConfigOverrides()

    def product(self, repeats: int) -> Iterator[Cell]:
        """models × configs × workloads × `repeats`, no rule applied."""
        repeated = max(repeats, self.repeats) > 1
        for entry in self.models:
            for config in self.configs:
                overrides = self._overrides(config)
                model = overrides.apply_to_model(entry.model)
                for declared in entry.workloads or self.workloads:
                    workload = overrides.apply_to_workload(declared)
                    for repeat in range(repeats):
                        yield Cell(
                            model=model,
                            config=config,
                            workload=workload,
                            repeat=repeat,
                            repeats=repeated,
                            need=entry.need,
                            limits=entry.limits or self.limits,
                            priority=entry.priority,
                            phase=self.phase,
                        )


def select_cells(
    cells: Iterable[Cell], *, only: Iterable[Rule] = (), exclude: Iterable[Rule] = ()
) -> list[Cell]:
    """The cells that some rule of `only` matches (all, where it is empty) and none of `exclude`."""
    only, exclude = tuple(only), tuple(exclude)
    return [
        cell
        for cell in cells
        if (not only or any(rule.matches(cell) for rule in only))
        and not any(rule.matches(cell) for rule in exclude)
    ]


def with_limit(cells: Iterable[Cell], limit: int) -> list[Cell]:
    """The same cells over their first `limit` samples: cells of their own, by path and content,
    and of no phase, since gates speak of whole results."""
    return [replace(cell, workload=replace(cell.workload, limit=limit), phase="") for cell in cells]
