"""The ``defaults`` of a campaign file: what holds wherever an axis says nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchfleet.domain.cell import AUTO_BATCH
from benchfleet.domain.limits import Limits
from benchfleet.domain.part import AUTO_SPLIT

from .entry import Entry
from .schema_types import (
    MAPPING,
    REPEATS,
    SHARE,
    SIZE,
    SLOTS,
    TIME,
    TRUTH,
    Shape,
    doc,
    mapping,
    plugin,
    whole,
)

ADAPTER = "transformers"
CELL_LIMITS: Mapping[str, Shape] = {
    "cell": doc(TIME, "how long a cell may take; no limit where none is named"),
    "tries": doc(whole(), "how often a cell may fail before it is given up (3)"),
    "generation": doc(TIME, "how long one call of the model may take, for a whole batch"),
    "stuck": doc(TIME, "how long nothing may come of a cell; else far longer than is usual"),
    "sample_errors": doc(
        SHARE, "the share of samples that may fail for good, such as 2%; they count as wrong (0)"
    ),
    "ram": doc(SIZE, "memory that a slot and all that it started may hold; else as much as is"),
}
LIMITS: Mapping[str, Shape] = {
    **CELL_LIMITS,
    "disk": doc(SIZE, "room to be left where the results lie (2 % of the disk, 1 GB at most)"),
}
KEYS: Mapping[str, Shape] = {
    "adapter": doc(plugin("models"), f"what opens the models ({ADAPTER})"),
    "model_kwargs": doc(MAPPING, "for the default adapter, when it opens a model"),
    "tokenizer_kwargs": doc(MAPPING, "for the default adapter, when it opens a tokenizer"),
    "generation": doc(MAPPING, "how answers are generated: max_new_tokens, temperature, …"),
    "batch_size": doc(SLOTS, "samples asked at once (1); auto: as many as help"),
    "repeats": doc(whole(most=REPEATS), "how often each cell is run, on other data (1)"),
    "limits": doc(mapping(LIMITS), "what a cell may take, and how often it may be tried"),
    "split": doc(SLOTS, "a cell into so many parts that run at once (1); auto: as many as pay"),
    "everywhere": doc(TRUTH, "sparse attention in the context's prefill too (false)"),
}
# Where these belong, for who writes them beside the axes.
BELONG = {**dict.fromkeys(CELL_LIMITS, "defaults.limits"), **dict.fromkeys(KEYS, "defaults")}


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What holds for every axis that says nothing else."""

    adapter: Entry  # an entry, so that a wrong name is reported once, at its line
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_kwargs: Mapping[str, Any] = field(default_factory=dict)
    generation: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 1
    repeats: int = 1
    limits: Limits = field(default_factory=Limits)
    everywhere: bool = False
    split: int = 1


def read_defaults(entry: Entry) -> Defaults:
    """The defaults, each that is absent or wrong at benchfleet's own value."""
    fields = entry.fields(KEYS)
    return Defaults(
        adapter=fields["adapter"],
        model_kwargs=fields["model_kwargs"].kwargs(),
        tokenizer_kwargs=fields["tokenizer_kwargs"].kwargs(),
        generation=fields["generation"].kwargs(),
        batch_size=1 if fields["batch_size"].absent else fields["batch_size"].slots(AUTO_BATCH),
        repeats=fields["repeats"].whole(1, most=REPEATS),
        limits=read_limits(fields["limits"], LIMITS, Limits()),
        everywhere=fields["everywhere"].truth(False),
        split=1 if fields["split"].absent else fields["split"].slots(AUTO_SPLIT),
    )


def read_limits(entry: Entry, keys: Mapping[str, Shape], base: Limits) -> Limits:
    """The limits under `keys`; what is not said is as in `base`."""
    limits = entry.fields(keys)
    return Limits(
        cell=limits["cell"].duration(base.cell),
        tries=limits["tries"].whole(base.tries),
        generation=limits["generation"].duration(base.generation),
        stuck=limits["stuck"].duration(base.stuck),
        sample_errors=limits["sample_errors"].share(base.sample_errors),
        ram=limits["ram"].size(base.ram or 0) or None,
        disk=(limits["disk"].size() or None) if "disk" in limits else base.disk,
    )
