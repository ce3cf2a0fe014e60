"""Builds cells for tests; a test names only the fields that matter to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.limits import Limits
from benchfleet.domain.resource import Need


def sample_cell(
    number: int = 0,
    *,
    model: str = "tiny",
    digest: str = "",
    source: str = "",
    python: str = "",
    config: str = "dense",
    benchmark: str = "",
    subset: str | None = None,
    repeat: int = 0,
    repeats: bool = False,
    version: str = "1",
    limit: int | None = None,
    gpus: int = 0,
    vram: int = 0,
    tries: int = 3,
    priority: int = 0,
    phase: str = "",
    batch_size: int = 1,
    outside: Mapping[str, Any] | None = None,
) -> Cell:
    """A cell of the mock adapter. Another `number` is another benchmark; another `version` is
    another content under the same readable name."""
    return Cell(
        model=Model(
            name=model,
            adapter="mock",
            source=source or f"models/{model}",
            digest=digest or f"digest of {model}",
            python=python,
        ),
        config=Config(
            name=config, attention=() if config == "dense" else (AttentionStep(name=config),)
        ),
        workload=Workload(
            benchmark=benchmark or f"benchmark-{number}",
            version=version,
            subset=subset,
            limit=limit,
            batch_size=batch_size,
            outside=outside or {},
        ),
        repeat=repeat,
        repeats=repeats,
        need=Need(gpus=gpus, vram=vram),
        limits=Limits(tries=tries),
        priority=priority,
        phase=phase,
    )
