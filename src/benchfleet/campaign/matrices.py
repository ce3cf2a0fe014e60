"""The keys of a matrix in a campaign file, and the matrix that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchfleet.domain.hardware import Hardware
from benchfleet.domain.matrix import Matrix, ModelEntry

from . import benchmarks, configs, defaults, hardware, models, rules
from .benchmarks import DeclaredWorkload, read_benchmarks
from .capability_check import check_pairs, leaves_cells
from .configs import DeclaredConfig, read_configs
from .declared_model import DeclaredModel
from .defaults import Defaults
from .entry import Entry
from .hardware import read_hardware
from .judge import check_judges
from .matrix_check import check_contents, check_names
from .models import read_models
from .rules import Axes, read_exclude, read_include
from .schema_types import Shape
from .series import CheckpointSeries
from .source import KeyPath

MATRIX: Mapping[str, Shape] = {
    "models": models.SHAPE,
    "configs": configs.SHAPE,
    "benchmarks": benchmarks.SHAPE,
    "hardware": hardware.SHAPE,
    "exclude": rules.EXCLUDE,
    "include": rules.INCLUDE,
}
BELONG = {**defaults.BELONG, **dict.fromkeys(MATRIX, "matrix")}


@dataclass(frozen=True, kw_only=True)
class DeclaredMatrix:
    """A matrix, and the names on its axes for rules that select cells."""

    matrix: Matrix
    axes: Axes
    workloads: Sequence[DeclaredWorkload]


class MatrixReader:
    """Reads the matrices of one file, each of its axes once."""

    def __init__(self, preset: Defaults, defaults: Entry, folder: Path) -> None:
        self._preset, self._defaults, self._folder = preset, defaults, folder
        self._models: dict[KeyPath, list[DeclaredModel]] = {}
        self._configs: dict[KeyPath, list[DeclaredConfig]] = {}
        self._workloads: dict[KeyPath, list[DeclaredWorkload]] = {}
        self._hardware: dict[KeyPath, list[Hardware]] = {}

    def read(self, entry: Entry, fields: Mapping[str, Entry]) -> DeclaredMatrix:
        """The matrix of all that is right in `fields`, wherever in the file they stand; what is
        not is noted, and none of it is run. mistakes of the whole stand at `entry`."""
        preset = self._preset
        named, settings, workloads = self._axes(fields)
        gpus = self._read_hardware(fields["hardware"])
        axes = Axes(
            models=[model.name for model in named],
            configs=[config.name for config in settings],
            workloads=[(one.benchmark, one.subset or "") for one in workloads],
            hardware=[one.name for one in gpus],
            repeats=preset.repeats,
        )
        matrix = Matrix(
            models=tuple(
                model_entry for one in named if (model_entry := _with_variants(one, workloads))
            ),
            configs=tuple(one.config for one in settings if one.config),
            workloads=tuple(one.workload for one in workloads if one.workload),
            hardware=tuple(gpus),
            overrides={one.name: one.overrides for one in settings if one.config},
            repeats=preset.repeats,
            limits=preset.limits,
            split=preset.split,
            exclude=read_exclude(fields["exclude"], axes),
            include=read_include(fields["include"], axes),
        )
        self._check(matrix, fields, named, settings, workloads)
        if entry.right and matrix.models and not leaves_cells(matrix):
            fields["exclude"].wrong("the rules leave no cell to run")
        repeats = max([preset.repeats, *(include.repeats for include in matrix.include)])
        axes = replace(axes, repeats=repeats)
        return DeclaredMatrix(matrix=matrix, axes=axes, workloads=workloads)

    @property
    def series(self) -> tuple[CheckpointSeries, ...]:
        """The series of checkpoints among the models."""
        models = [model for read in self._models.values() for model in read]
        return tuple(dict.fromkeys(one.series for one in models if one.series))

    def _read_hardware(self, entry: Entry) -> list[Hardware]:
        if entry.path not in self._hardware:
            self._hardware[entry.path] = read_hardware(entry)
        return self._hardware[entry.path]

    def _axes(
        self, fields: Mapping[str, Entry]
    ) -> tuple[list[DeclaredModel], list[DeclaredConfig], list[DeclaredWorkload]]:
        models, configs, benchmarks = (fields[key] for key in ("models", "configs", "benchmarks"))
        if models.path not in self._models:
            self._models[models.path] = read_models(models, self._preset, self._folder)
        if configs.path not in self._configs:
            self._configs[configs.path] = read_configs(configs, self._preset, self._folder)
        if benchmarks.path not in self._workloads:
            read = read_benchmarks(benchmarks, self._preset, self._folder)
            self._workloads[benchmarks.path] = read
        return (
            self._models[models.path],
            self._configs[configs.path],
            self._workloads[benchmarks.path],
        )

    def _check(
        self,
        matrix: Matrix,
        fields: Mapping[str, Entry],
        models: Sequence[DeclaredModel],
        configs: Sequence[DeclaredConfig],
        workloads: Sequence[DeclaredWorkload],
    ) -> None:
        every = [one for declared in models for one in (declared, *declared.variants)]
        check_names(every, configs, workloads)
        check_contents(every, configs)
        check_judges(workloads, models, configs)
        with_variants = [one for declared in models for one in (declared, *_as_asked(declared))]
        if not (fields["exclude"].right and fields["include"].right):
            # Which pairs the rules leave is not known: only settings of generation are checked.
            with_variants = [replace(one, model=None, opened=None) for one in with_variants]
        check_pairs(matrix, with_variants, configs, workloads, self._defaults)


def _with_variants(
    declared: DeclaredModel, workloads: Sequence[DeclaredWorkload]
) -> ModelEntry | None:
    entry = _with_generation(declared, workloads)
    variants = [_with_generation(one, workloads) for one in declared.variants]
    return replace(entry, variants=tuple(one for one in variants if one)) if entry else None


def _as_asked(declared: DeclaredModel) -> list[DeclaredModel]:
    """Its variants, each called as the model that it stands in for, so that rules take it so."""
    return [
        replace(one, model=replace(one.model, model=replace(one.model.model, name=declared.name)))
        for one in declared.variants
        if one.model
    ]


def _with_generation(
    declared: DeclaredModel, workloads: Sequence[DeclaredWorkload]
) -> ModelEntry | None:
    """The model, with workloads of its own where its generation kwargs change them."""
    if declared.model is None or not declared.generation:
        return declared.model
    return replace(
        declared.model,
        workloads=tuple(
            replace(one.workload, generation={**one.base, **declared.generation, **one.own})
            for one in workloads
            if one.workload
        ),
    )
