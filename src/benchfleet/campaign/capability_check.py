"""Reports what an adapter cannot do for a matrix, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from benchfleet.benchmarks.base import Benchmark
from benchfleet.domain.cell import Config, Workload
from benchfleet.domain.matrix import Matrix
from benchfleet.models.base import Adapter

from .benchmarks import DeclaredWorkload
from .chat import unsupported
from .configs import DeclaredConfig
from .declared_model import DeclaredModel
from .entry import Entry
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
        if (adapter := declared.adapter) is None:
            continue
        if declared.opened and (message := adapter.check(declared.opened, DENSE)):
            declared.entry.wrong(message)
        for one in (
            *_configs(matrix, declared, adapter, configs),
            *_benchmarks(matrix, declared, adapter, workloads, defaults),
            *_triples(matrix, declared, adapter, configs, workloads),
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
    declared_model: DeclaredModel,
    adapter: type[Adapter],
    configs: Sequence[DeclaredConfig],
) -> Iterator[_Refusal]:
    entry, opened = declared_model.model, declared_model.opened
    for declared in configs:
        message = None
        if opened and declared.config and not adapter.check(opened, DENSE):
            model = declared.overrides.apply_to_model(opened)
            message = _uncached(declared.config, adapter) or _serverless(declared, adapter)
            config = entry.chatting(declared.config) if entry else declared.config
            message = message or unsupported(adapter, config) or adapter.check(model, config)
        problems = adapter.check_generation(declared.overrides.generation)
        if not (message or problems):
            continue
        # Which cells the rules leave is known only where model and config are right.
        if entry and declared.config:
            part = replace(matrix, models=(entry,), configs=(declared.config,))
            if not leaves_cells(part):
                continue
        if message:
            yield _Refusal(entry=declared.entry, message=message, pair=True)
        generation = declared.entry.inside("generation")
        for name, problem in problems.items():
            yield _Refusal(entry=generation.inside(name), message=problem, pair=False)


def _uncached(config: Config, adapter: type[Adapter]) -> str | None:
    if config.kv_cache and not adapter.rounds_cache:
        return "the adapter cannot round keys and values; leave kv_cache out"
    return None


def _serverless(declared: DeclaredConfig, adapter: type[Adapter]) -> str | None:
    if declared.overrides.server and not adapter.starts_server:
        return "the adapter starts no server; leave server out"
    return None


def _benchmarks(
    matrix: Matrix,
    declared: DeclaredModel,
    adapter: type[Adapter],
    workloads: Sequence[DeclaredWorkload],
    defaults: Entry,
) -> Iterator[_Refusal]:
    entry, opened = declared.model, declared.opened
    missing = adapter.check_files(opened) if opened else None
    for one in workloads:
        if (benchmark := one.kind) is None or not benchmark.needs_model:
            continue
        refusals = []
        if opened and (message := _unserved(benchmark, one.benchmark, adapter, opened.adapter)):
            refusals.append(_Refusal(entry=one.entry, message=message, pair=True))
        elif not benchmark.reads_generation:
            generation = {**one.base, **declared.generation, **one.own}
            for name, message in adapter.check_generation(generation).items():
                origin = _where(name, (one.settings, declared.entry, defaults)) or one.entry
                refusals.append(_Refusal(entry=origin, message=message, pair=False))
        if missing:
            refusals.append(_Refusal(entry=declared.entry, message=missing, pair=False))
        if refusals and entry and one.workload:
            own = replace(entry, workloads=(one.workload,))
            if not leaves_cells(replace(matrix, models=(own,))):
                continue
        yield from refusals


def _triples(
    matrix: Matrix,
    declared: DeclaredModel,
    adapter: type[Adapter],
    configs: Sequence[DeclaredConfig],
    workloads: Sequence[DeclaredWorkload],
) -> Iterator[_Refusal]:
    """Configs that a benchmark cannot use because it makes the model's passes itself."""
    if not (adapter.lends and declared.model):
        return
    for work in workloads:
        for config in configs:
            if not (work.workload and work.kind and config.config):
                continue
            message = _unlent(work.kind, work.workload, declared.model.chatting(config.config))
            if message is None:
                continue
            own = replace(declared.model, workloads=(work.workload,))
            if leaves_cells(replace(matrix, models=(own,), configs=(config.config,))):
                yield _Refusal(entry=work.entry, message=message, pair=True)


def _unlent(benchmark: type[Benchmark], work: Workload, config: Config) -> str | None:
    """What of a config does not go together with passes of a harness's own, or None."""
    asks = config.chat is not None or config.thinking is not None or work.params.get("context")
    if asks or not benchmark.borrows:
        return None
    its = f"{work.name} makes the model's passes itself, and config {config.name} has"
    if config.kv_cache:
        return f"{its} a kv_cache"
    if any(step.params.get("question") == "dense" for step in config.attention):
        return f"{its} question: dense"
    return None


def _unserved(
    benchmark: type[Benchmark], name: str, adapter: type[Adapter], adapter_name: str
) -> str | None:
    """What the benchmark needs of an adapter and this one does not give, or None."""
    if not adapter.opens:
        return f"{name} needs a model, and the adapter {adapter_name!r} opens none"
    if benchmark.loads_server and not adapter.takes_load:
        return f"{name} measures a server, and the adapter {adapter_name!r} asks none"
    borrows = adapter.lends or (adapter.serves and benchmark.borrows_served)
    if benchmark.borrows and not borrows:
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
