"""Reports what an adapter cannot do for a matrix, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from benchfleet.benchmarks.base import Benchmark, benchmark_class
from benchfleet.domain.cell import Config
from benchfleet.domain.matrix import Matrix, ModelEntry
from benchfleet.models.base import Adapter, adapter_class

from .benchmarks import DeclaredWorkload
from .configs import DeclaredConfig
from .entry import Entry
from .models import DeclaredModel
from .source import KeyPath

DENSE = Config(name="dense")


@dataclass(kw_only=True)
class _Refusal:
    """One thing that stands in the file, and the models whose adapters refuse it."""

    entry: Entry
    message: str
    pair: bool  # whether excluding the pair is a way out
    models: dict[str, None] = field(default_factory=dict)  # each once, in the file's order


def check_pairs(
    matrix: Matrix,
    models: Sequence[DeclaredModel],
    configs: Sequence[DeclaredConfig],
    workloads: Sequence[DeclaredWorkload],
    defaults: Entry,
) -> None:
    """Refuse what an adapter cannot run: a model at all, or a config, a benchmark or a generation
    setting that some cell asks of it. `defaults` is what stands in the file under that key."""
    refusals: dict[tuple[KeyPath, str], _Refusal] = {}
    for declared in models:
        if declared.model is None:
            _check_generation(declared, configs, workloads, defaults)
            continue
        adapter = adapter_class(declared.model.model.adapter)
        if message := adapter.check(declared.model.model, DENSE):
            declared.entry.wrong(message)
            continue
        for one in (
            *_configs(matrix, declared.model, adapter, configs),
            *_benchmarks(matrix, declared, declared.model, adapter, workloads, defaults),
        ):
            refusal = refusals.setdefault((one.entry.path, one.message), one)
            refusal.models[repr(declared.name)] = None
    for refusal in refusals.values():
        unable = f" (model {', '.join(refusal.models)})"
        if refusal.pair:
            refusal.entry.wrong(f"{refusal.message}{unable}; change it, or exclude the pair")
        else:
            some = len(refusal.models) < len(models)
            refusal.entry.wrong(refusal.message + (unable if some else ""))


def leaves_cells(matrix: Matrix) -> bool:
    """Whether the rules leave anything to run."""
    return any(
        not any(rule.matches(cell) for rule in matrix.exclude)
        for cell in matrix.product(matrix.repeats)
    ) or any(
        include.rule.matches(cell)
        for include in matrix.include
        for cell in matrix.product(include.repeats)
    )


def _configs(
    matrix: Matrix,
    entry: ModelEntry,
    adapter: type[Adapter],
    configs: Sequence[DeclaredConfig],
) -> Iterator[_Refusal]:
    for declared in configs:
        if declared.config is None:
            continue
        model = declared.overrides.apply_to_model(entry.model)
        message = adapter.check(model, declared.config)
        problems = adapter.check_generation(declared.overrides.generation)
        if not (message or problems):
            continue
        if not leaves_cells(replace(matrix, models=(entry,), configs=(declared.config,))):
            continue
        if message:
            yield _Refusal(entry=declared.entry, message=message, pair=True)
        generation = declared.entry.inside("generation")
        for name, problem in problems.items():
            yield _Refusal(entry=generation.inside(name), message=problem, pair=False)


def _check_generation(
    declared: DeclaredModel,
    configs: Sequence[DeclaredConfig],
    workloads: Sequence[DeclaredWorkload],
    defaults: Entry,
) -> None:
    """Refuse generation settings of a model that is wrong otherwise, so that one reading of the
    file finds both."""
    benchmarks = [benchmark_class(one.workload.benchmark) for one in workloads if one.workload]
    if declared.adapter is None or not any(
        one.needs_model and not one.reads_generation for one in benchmarks
    ):
        return
    generation = {**defaults.inside("generation").kwargs(), **declared.generation}
    for name, message in declared.adapter.check_generation(generation).items():
        (_where(name, (declared.entry, defaults)) or declared.entry).wrong(message)
    for config in configs:
        for name, message in declared.adapter.check_generation(config.overrides.generation).items():
            config.entry.inside("generation").inside(name).wrong(message)


def _benchmarks(
    matrix: Matrix,
    declared: DeclaredModel,
    entry: ModelEntry,
    adapter: type[Adapter],
    workloads: Sequence[DeclaredWorkload],
    defaults: Entry,
) -> Iterator[_Refusal]:
    for one in workloads:
        if one.workload is None:
            continue
        benchmark = benchmark_class(one.workload.benchmark)
        if not benchmark.needs_model:
            continue
        refusals = []
        if message := _unserved(benchmark, one.benchmark, adapter, entry.model.adapter):
            refusals.append(_Refusal(entry=one.entry, message=message, pair=True))
        elif not benchmark.reads_generation:
            generation = {**one.base, **declared.generation, **one.own}
            for name, message in adapter.check_generation(generation).items():
                origin = _where(name, (one.settings, declared.entry, defaults)) or one.entry
                refusals.append(_Refusal(entry=origin, message=message, pair=False))
        own = replace(entry, workloads=(one.workload,))
        if refusals and leaves_cells(replace(matrix, models=(own,))):
            yield from refusals


def _unserved(
    benchmark: type[Benchmark], name: str, adapter: type[Adapter], adapter_name: str
) -> str | None:
    """What the benchmark needs of an adapter and this one does not give, or None."""
    if not adapter.opens:
        return f"{name} needs a model, and the adapter {adapter_name!r} opens none"
    if benchmark.borrows and not adapter.lends:
        return (
            f"{name} makes the model's passes itself, which the adapter {adapter_name!r} does not "
            "let it"
        )
    return None


def _where(setting: str, holders: Sequence[Entry]) -> Entry | None:
    """Where the generation setting that holds is written: the first holder that names it."""
    for holder in holders:
        generation = holder.inside("generation")
        if isinstance(generation.value, dict) and setting in generation.value:
            return generation.inside(setting)
    return None
