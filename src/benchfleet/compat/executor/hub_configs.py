"""Attention configs of sparse-attention-hub as the steps that a campaign writes.

Its classes are known by name and fields, so the package need not be installed.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

_PACKAGE = "sparse_attention_hub"
_STEPS = {
    "LocalMaskerConfig": ("local", "window_size"),
    "SinkMaskerConfig": ("sink", "sink_size"),
    "OracleTopKConfig": ("oracle_top_k", "heavy_size"),
}
_COMPOSITION = "ResearchAttentionConfig"
_UNUSED = {"search_space"}  # fields for its parameter search


def is_hub_config(value: Any) -> bool:
    """Whether it is a config object of sparse-attention-hub."""
    name = type(value).__name__
    return type(value).__module__.split(".")[0] == _PACKAGE or (
        is_dataclass(value) and (name == _COMPOSITION or name in _STEPS)
    )


def hub_steps(value: Any) -> list[dict[str, Any]]:
    """Its steps, as ``[{"sink": 4}, {"local": 1020}]``. Raises ValueError, which names the class
    that has no equal here."""
    if type(value).__name__ == _COMPOSITION:
        return [_step(masker) for masker in value.masker_configs]
    return [_step(value)]


def _step(value: Any) -> dict[str, Any]:
    name = type(value).__name__
    step, field = _STEPS.get(name, ("", ""))
    if not step:
        names = ", ".join((_COMPOSITION, *_STEPS))
        raise ValueError(f"{name} has no equal here; of sparse-attention-hub there are {names}")
    others = {one.name for one in fields(value)} - {field, *_UNUSED}
    if others:
        raise ValueError(f"{name}: {', '.join(sorted(others))} has no equal here; remove it")
    return {step: getattr(value, field)}
