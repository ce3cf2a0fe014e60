"""The ``defaults`` of a campaign file: what holds wherever an axis says nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchfleet.domain.cell import Limits

from .entry import Entry

ADAPTER = "transformers"
KEYS = (
    "adapter",
    "model_kwargs",
    "tokenizer_kwargs",
    "generation",
    "batch_size",
    "repeats",
    "limits",
    "everywhere",
)


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
    limits = fields["limits"].fields(("cell", "tries"))
    return Defaults(
        adapter=fields["adapter"],
        model_kwargs=fields["model_kwargs"].kwargs(),
        tokenizer_kwargs=fields["tokenizer_kwargs"].kwargs(),
        generation=fields["generation"].kwargs(),
        batch_size=fields["batch_size"].whole(1),
        repeats=fields["repeats"].whole(1, most=10_000),
        limits=Limits(
            cell=limits["cell"].duration(Limits.cell),
            tries=limits["tries"].whole(Limits.tries),
        ),
        everywhere=fields["everywhere"].truth(False),
    )
