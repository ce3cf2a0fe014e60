"""The ``benchmarks`` of a matrix: what may be written of one, and the workloads it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import Benchmark
from benchfleet.domain.cell import AUTO_BATCH, Workload
from benchfleet.domain.part import AUTO_SPLIT

from .defaults import Defaults
from .entry import Entry
from .judge import JUDGE, read_judge
from .plugins import plugin
from .schema_types import (
    LABEL,
    MAPPING,
    SLOTS,
    TRUTH,
    Shape,
    doc,
    either,
    listing,
    mapping,
    named,
    nullable,
    one_or_list,
    whole,
)
from .schema_types import plugin as plugin_name

_SUBSETS = one_or_list(LABEL)
_HUB_NAMES = {"longbenchv2": "longbench_v2"}  # of sparse-attention-hub, and ours
_HUB_LENGTHS = {"ruler16k": 16384, "ruler32k": 32768}  # its names for lengths of ruler, in tokens
_NAMED_SUBSETS = named(nullable(MAPPING), LABEL)  # each with parameters of its own
MAX_ANSWERS = 10_000  # to one question
KEYS: Mapping[str, Shape] = {
    "subsets": doc(
        either(_SUBSETS, _NAMED_SUBSETS),
        "one cell for each; the whole where none is named; a mapping gives each its parameters",
    ),
    "generation": doc(MAPPING, "over all other generation kwargs"),
    "batch_size": doc(SLOTS, "samples asked at once (defaults.batch_size), or auto"),
    "limit": doc(whole(), "only the first so many samples"),
    "split": doc(SLOTS, "into so many parts that run at once (defaults.split), or auto"),
    "samples_per_question": doc(
        whole(most=MAX_ANSWERS), "answers to each question, for pass@k and the like (1)"
    ),
    "judge": JUDGE,
    "critical": doc(TRUTH, "where it fails for good, the gate of its phase closes at once"),
}
_SETTINGS = {**mapping(KEYS), "additionalProperties": True}  # what the benchmark itself takes
_NAME = plugin_name("benchmarks")
SHAPE = doc(
    listing(
        either(_NAME, named(nullable(either(_SUBSETS, _SETTINGS)), _NAME, single=True)), least=1
    ),
    "the benchmarks: names, names with their subsets, or names with mappings",
)


@dataclass(frozen=True, kw_only=True)
class DeclaredWorkload:
    """A benchmark's subset as the file names it, and what it is where nothing is wrong with it."""

    benchmark: str
    subset: str | None
    entry: Entry
    settings: Entry  # what stands beside its subsets, such as generation
    base: Mapping[str, Any]  # generation kwargs beneath the model's
    own: Mapping[str, Any]  # generation kwargs above the model's
    workload: Workload | None
    kind: type[Benchmark] | None = None  # its class, also where something in it is wrong
    critical: Entry | None = None  # where it says that its failure closes the gate of its phase


def read_benchmarks(
    entry: Entry, defaults: Defaults, folder: Path = Path()
) -> list[DeclaredWorkload]:
    """Every benchmark of the list, one workload for each of its subsets; the files that one reads
    are taken from `folder`."""
    workloads = [workload for item in entry.items() for workload in _read(item, defaults, folder)]
    if not workloads and entry.right:
        entry.wrong("name at least one benchmark, such as mock_benchmark")
    return workloads


def _own_name(name: str, body: Entry) -> tuple[str, Entry]:
    """A benchmark and its settings, where sparse-attention-hub has another name for it."""
    if length := _HUB_LENGTHS.get(name):
        value = body.value or {}
        settings = value if isinstance(value, dict) else {"subsets": value}
        own = {"lengths": [length]} if settings.get("subsets") else {"subsets": [length]}
        return "ruler", body.like({**settings, **own})
    return _HUB_NAMES.get(name, name), body


def _read(entry: Entry, defaults: Defaults, folder: Path) -> list[DeclaredWorkload]:
    if isinstance(entry.value, str):
        name, body = _own_name(entry.value, entry.like({}))
        return _workloads(name, entry, body, defaults, folder)
    pairs = entry.pairs("a name, or a name with its subsets such as {longbench: [qasper]}")
    if len(pairs) == 1:
        name, body = _own_name(*pairs[0])
        return _workloads(name, body, body, defaults, folder)
    if pairs:
        first, *others = (name for name, _ in pairs)
        entry.wrong(
            f"holds {len(pairs)} names; indent {', '.join(map(repr, others))} below {first!r} "
            "where they belong to it, or make each an item of its own"
        )
    elif entry.right:
        entry.wrong("names no benchmark")
    return []


def _workloads(
    name: str, entry: Entry, body: Entry, defaults: Defaults, folder: Path
) -> list[DeclaredWorkload]:
    """The workloads of one item; `body` is a mapping of settings, or the subsets themselves."""
    settings = body if isinstance(body.value, dict) else body.like({})
    benchmark_type: type[Benchmark] | None = plugin("benchmarks", name, entry)
    subsets_key = benchmark_type.subsets_key if benchmark_type else Benchmark.subsets_key
    subsets = _listing(settings, subsets_key) if settings is body else body
    if isinstance(subsets.value, dict):
        return _named_subsets(name, entry, settings, subsets, defaults, folder)
    ours = {*KEYS, subsets_key}
    params = {key: value for key, value in settings.kwargs().items() if key not in ours}
    if params.pop("repeats", None) is not None:
        settings.inside("repeats").wrong("belongs in 'defaults', or in an include rule")
    own = settings.inside("generation").kwargs()
    size = settings.inside("batch_size")
    batch_size = defaults.batch_size if size.absent else size.slots(AUTO_BATCH)
    answers = settings.inside("samples_per_question")
    limit, critical = settings.inside("limit"), settings.inside("critical")
    split = settings.inside("split")
    if benchmark_type is not None and not split.absent and not benchmark_type.splits:
        split.wrong(f"{name} cannot be split: {benchmark_type.why_whole}")
    limited = None if limit.absent else limit.whole(1)
    is_critical = critical if critical.truth(False) else None
    benchmark, refused = (
        _benchmark(benchmark_type, params, entry, folder) if benchmark_type else (None, [])
    )
    shared, base = None, dict(defaults.generation)
    if benchmark is not None:
        base = {**benchmark.default_generation, **base}
    if benchmark is not None and set(refused) & benchmark.outside().keys():
        benchmark = None  # what was refused may be where its subsets come from
    if benchmark is not None and not refused:
        shared = Workload(
            benchmark=name,
            version=benchmark.version,
            params=dict(benchmark.params()),
            generation={**base, **own},
            batch_size=batch_size,
            limit=limited,
            judge=read_judge(settings.inside("judge"), folder),
            samples_per_question=answers.whole(1, most=MAX_ANSWERS),
            called=benchmark.name,
            outside=dict(benchmark.outside()),
            measures_speed=benchmark.measures_speed,
            split=None if split.absent else split.slots(AUTO_SPLIT),
        )
    return [
        DeclaredWorkload(
            benchmark=shared.name if shared else name,
            subset=subset,
            entry=item,
            settings=settings,
            base=base,
            own=own,
            workload=_of_subset(shared, benchmark, subset, item, subsets),
            kind=benchmark_type,
            critical=is_critical,
        )
        for subset, item in _subsets(subsets, entry, benchmark)
    ]


def _named_subsets(
    name: str, entry: Entry, settings: Entry, subsets: Entry, defaults: Defaults, folder: Path
) -> list[DeclaredWorkload]:
    """The workloads of subsets that have parameters of their own, over those of the benchmark."""
    key = str(subsets.path[-1])
    shared = {one: value for one, value in settings.value.items() if one != key}
    workloads = []
    for subset, own in subsets.pairs("a mapping of subsets"):
        body = own.like({**shared, **own.kwargs(), key: str(subset)})
        workloads += _workloads(name, own, body, defaults, folder)
    if not workloads and entry.right:
        subsets.wrong("names no subset; remove it to run the whole benchmark")
    return workloads


def _listing(settings: Entry, subsets_key: str) -> Entry:
    """Where the subsets are named: under the benchmark's own word for them, or ours."""
    subsets, own = settings.inside("subsets"), settings.inside(subsets_key)
    if own.absent:
        return subsets
    if own.path != subsets.path and not subsets.absent:
        own.wrong("stands beside 'subsets', which says the same here; remove one")
    return own


def _subsets(
    listing: Entry, entry: Entry, benchmark: Benchmark | None
) -> list[tuple[str | None, Entry]]:
    """Each subset with its place; the whole benchmark where none is named."""
    items = listing.items(single=True)
    if not items and not listing.absent:
        listing.wrong("names no subset; remove the empty list to run the whole benchmark")
    named = ((item.label(), item) for item in items)
    return [(part, item) for name, item in named for part in _parts(name, benchmark)] or [
        (None, entry)
    ]


def _parts(name: str, benchmark: Benchmark | None) -> Sequence[str]:
    return benchmark.expand_subset(name) if benchmark and name else (name,)


def _benchmark(
    benchmark_type: type[Benchmark], params: dict[str, Any], entry: Entry, folder: Path
) -> tuple[Benchmark | None, list[str]]:
    """The benchmark made from those of its parameters that are right, with a mistake noted for
    each other, and the names of these; None where one mistake leaves none to speak of."""
    if benchmark_type.takes_folder:
        if "folder" in params:
            entry.inside("folder").wrong("relative paths start at the campaign's folder; remove it")
        params = {**params, "folder": str(folder)}
    refused: list[str] = []
    while True:
        try:
            return benchmark_type(params), refused
        except ValueError as error:
            message = str(error)
            if _named_in(message, refused):  # it is lacking now
                return None, refused
            name = _named_in(message, params)
            words = [*KEYS, benchmark_type.subsets_key]
            near = get_close_matches(name or "", words, n=1, cutoff=0.75)
            entry.wrong(message + "".join(f" (or is it {word!r} that you mean?)" for word in near))
            if name is None:
                return None, refused
            refused.append(name)
            params = {key: value for key, value in params.items() if key != name}


def _named_in(message: str, names: Iterable[str]) -> str | None:
    """The one of these names that the message speaks of first."""
    matches = {name: re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names}
    starts = {match.start(): name for name, match in matches.items() if match}
    return starts[min(starts)] if starts else None


def _of_subset(
    shared: Workload | None,
    benchmark: Benchmark | None,
    subset: str | None,
    item: Entry,
    listing: Entry,
) -> Workload | None:
    """The workload of one subset, or None with the mistake noted."""
    if benchmark is None or not item.right:
        return None
    if subset is not None and (message := benchmark.check_subset(subset)):
        listing.wrong(message, at=item)
        return None
    if shared is None:
        return None
    try:
        workload = replace(shared, subset=subset, data_digest=benchmark.data_digest(subset))
        if subset is None and (message := benchmark.check_data(None)):
            raise ValueError(message)
        return workload
    except (ValueError, OSError) as error:
        item.wrong(str(error))
        return None
