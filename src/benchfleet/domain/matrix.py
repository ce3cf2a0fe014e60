"""The axes of a campaign, the rules over them, and their product."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from .cell import Cell, Config, Fingerprint, Kwargs, Model, Workload
from .hardware import Hardware
from .limits import Limits
from .name_patterns import matches
from .resource import Need

AXES = ("models", "configs", "benchmarks", "subsets", "hardware", "repeats")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A condition on axes, by name or glob; ``!`` in front of a pattern negates it."""

    models: tuple[str, ...] = ()  # () says nothing about this axis
    configs: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    subsets: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
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
        hardware = [one.name for one in cell.hardware] or [""]  # any of them will do
        return all(matches(patterns, name) for patterns, name in named if patterns) and any(
            matches(self.hardware, name) for name in hardware
        )


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """A model with what the campaign says of it beyond its identity."""

    model: Model
    need: Need = field(default_factory=Need)
    limits: Limits | None = None  # None for the matrix's own
    priority: int = 0
    split: int | None = None  # None for the matrix's own
    workloads: tuple[Workload, ...] = ()  # as asked of this model; () for the matrix's own
    size: int = 0  # bytes of its weights as declared; 0: not stated
    chat: Kwargs | None = None  # beneath that of a config
    thinking: Kwargs | None = None
    variants: tuple[ModelEntry, ...] = ()  # what may stand in for it, the best first

    def chatting(self, config: Config) -> Config:
        """The config with the model's own chat and tags beneath it."""
        if self.chat is None and self.thinking is None:
            return config
        return replace(
            config,
            chat=_over(self.chat, config.chat),
            thinking=_over(self.thinking, config.thinking),
        )


def _over(own: Kwargs | None, config: Kwargs | None) -> Kwargs | None:
    return own if config is None else config if own is None else {**own, **config}


@dataclass(frozen=True, kw_only=True)
class ConfigOverrides:
    """What a config changes of every model and workload, beside its attention."""

    model_kwargs: Kwargs = field(default_factory=dict)
    generation: Kwargs = field(default_factory=dict)
    server: Kwargs = field(default_factory=dict)  # args and env of its server, after its own

    def apply_to_model(self, model: Model) -> Model:
        """The model with these kwargs over its own."""
        if not (self.model_kwargs or self.server):
            return model
        kwargs = {**model.model_kwargs, **self.model_kwargs}
        if self.server:
            own = kwargs.get("server") or {}
            args = [*(own.get("args") or ()), *(self.server.get("args") or ())]
            env = {**(own.get("env") or {}), **(self.server.get("env") or {})}
            kwargs["server"] = {**({"args": args} if args else {}), **({"env": env} if env else {})}
        return replace(model, model_kwargs=kwargs)

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
    """models × configs × workloads × hardware × repeats, less `exclude`, plus `include`; and the
    matrices of a campaign's phases."""

    models: tuple[ModelEntry, ...]
    configs: tuple[Config, ...]
    workloads: tuple[Workload, ...]
    hardware: tuple[Hardware, ...] = ()  # (): cells run anywhere
    overrides: Mapping[str, ConfigOverrides] = field(default_factory=dict)  # by config
    repeats: int = 1
    limits: Limits = field(default_factory=Limits)
    split: int = 1
    exclude: tuple[Rule, ...] = ()
    include: tuple[Include, ...] = ()
    only: tuple[Rule, ...] = ()  # of all these, the cells that some rule matches; () for all
    without: tuple[Rule, ...] = ()  # and of those, the cells that none of these does
    phase: str = ""  # that the cells are of
    rounds: bool = False  # a repeat of all configs of a model goes before the next one
    parts: tuple[Matrix, ...] = ()  # of the phases, whose cells come after its own

    def expand(self) -> list[Cell]:
        """Every cell once, model by model, so that neighbours share what is loaded.

        Cells with equal content are one cell, which runs on any hardware that they name; an
        `include` that asks for more repeats of a cell replaces its plain form, so that all its
        repeats lie side by side. A cell of a phase is not one of the campaign's own beside it.
        """
        if self.parts:
            phased = [cell for part in self.parts for cell in part.expand()]
            in_phases = {cell.fingerprint for cell in phased}
            own = replace(self, parts=()).expand()
            return [*(cell for cell in own if cell.fingerprint not in in_phases), *phased]
        cells: dict[Fingerprint, Cell] = {}
        for cell in self.product(self.repeats):
            if not any(rule.matches(cell) for rule in self.exclude):
                _put(cells, cell)
        for include in self.include:
            for cell in self.product(include.repeats):
                if include.rule.matches(cell):
                    _put(cells, cell)
        order = {entry.model.name: index for index, entry in enumerate(self.models)}
        ordered = sorted(cells.values(), key=lambda cell: order[cell.model.name])
        if self.rounds:
            ordered = _in_rounds(ordered, order)
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
                config=variant.chatting(cell.config),
                workload=workload,
                need=replace(variant.need, hardware=cell.hardware),
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
        """models × configs × workloads × hardware × `repeats`, no rule applied."""
        repeated = max(repeats, self.repeats) > 1
        for entry in self.models:
            needs = [replace(entry.need, hardware=(one,)) for one in self.hardware] or [entry.need]
            for declared_config in self.configs:
                overrides = self._overrides(declared_config)
                config = entry.chatting(declared_config)
                model = overrides.apply_to_model(entry.model)
                for declared in entry.workloads or self.workloads:
                    workload = overrides.apply_to_workload(declared)
                    for need, repeat in product(needs, range(repeats)):
                        yield Cell(
                            model=model,
                            config=config,
                            workload=workload,
                            repeat=repeat,
                            repeats=repeated,
                            need=need,
                            limits=entry.limits or self.limits,
                            priority=entry.priority,
                            phase=self.phase,
                            split=self._split(entry, workload),
                        )

    def _split(self, entry: ModelEntry, workload: Workload) -> int:
        """Of a cell: as its benchmark says, else its model, else the matrix."""
        declared = (workload.split, entry.split, self.split)
        return next(one for one in declared if one is not None)


def _in_rounds(cells: Sequence[Cell], order: Mapping[str, int]) -> list[Cell]:
    """The cells with priorities by which a model's repeats go in turn, model after model; its own
    priority still goes before all others'."""
    repeats = max((cell.repeat + 1 for cell in cells), default=1)
    turns = len(order) * repeats

    def priority(cell: Cell) -> int:
        later_models = len(order) - 1 - order[cell.model.name]
        return cell.priority * turns + later_models * repeats - cell.repeat

    return [replace(cell, priority=priority(cell)) for cell in cells]


def _put(cells: dict[Fingerprint, Cell], cell: Cell) -> None:
    """Add a cell. If it is there already, it takes the hardware of both."""
    if (other := cells.get(cell.fingerprint)) is not None:
        hardware = tuple(dict.fromkeys((*other.hardware, *cell.hardware)))
        cell = cell if cell.repeats else other
        cell = replace(cell, need=replace(cell.need, hardware=hardware))
    cells[cell.fingerprint] = cell


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
