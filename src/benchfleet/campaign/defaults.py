"""The ``defaults`` of a campaign file: what holds wherever an axis says nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchfleet.domain.cell import Limits

from .entry import Entry
from .shapes import MAPPING, REPEATS, TIME, TRUTH, Shape, mapping, plugin, told, whole

ADAPTER = "transformers"
LIMITS: Mapping[str, Shape] = {
    "cell": told(TIME, "how long a cell may take; no limit where none is named"),
    "tries": told(whole(), "how often a cell may fail before it is given up (3)"),
}
KEYS: Mapping[str, Shape] = {
    "adapter": told(plugin("models"), f"what opens the models ({ADAPTER})"),
    "model_kwargs": told(MAPPING, "for the default adapter, when it opens a model"),
    "tokenizer_kwargs": told(MAPPING, "for the default adapter, when it opens a tokenizer"),
    "generation": told(MAPPING, "how answers are generated: max_new_tokens, temperature, …"),
    "batch_size": told(whole(), "samples asked at once (1)"),
    "repeats": told(whole(most=REPEATS), "how often each cell is run, on other data (1)"),
    "limits": told(mapping(LIMITS), "how long and how often a cell may be tried"),
    "everywhere": told(TRUTH, "sparse attention in the context's prefill too (false)"),
}


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What holds for every axis that says nothing else."""

    adapter: Entry  # an entry, so that a wrong name is told once, where it stands
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_kwargs: Mapping[str, Any] = field(default_factory=dict)
    generation: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 1
    repeats: int = 1
    limits: Limits = field(default_factory=Limits)
    everywhere: bool = False


def read_defaults(entry: Entry) -> Defaults:
    """The defaults, each that is absent or wrong at benchfleet's own value."""
    fields = entry.fields(KEYS)
    limits = fields["limits"].fields(LIMITS)
    return Defaults(
        adapter=fields["adapter"],
        model_kwargs=fields["model_kwargs"].kwargs(),
        tokenizer_kwargs=fields["tokenizer_kwargs"].kwargs(),
        generation=fields["generation"].kwargs(),
        batch_size=fields["batch_size"].whole(1),
        repeats=fields["repeats"].whole(1, most=REPEATS),
        limits=Limits(
            cell=limits["cell"].duration(Limits.cell),
            tries=limits["tries"].whole(Limits.tries),
        ),
        everywhere=fields["everywhere"].truth(False),
    )
