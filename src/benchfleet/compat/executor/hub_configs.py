"""Attention configs of sparse-attention-hub as the steps that a campaign writes.

Its classes are known by name and fields, so the package need not be installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_PACKAGE = "sparse_attention_hub"
# Of each class the step, its parameters by the class's fields, and parameters that the class lacks.
_STEPS: Mapping[str, tuple[str, Mapping[str, str], Mapping[str, Any]]] = {
    "AdaptiveSamplingMaskerConfig": (
        "adaptive_sampling",
        {
            "base_rate_sampling": "base_rate",
            **{name: name for name in ("epsilon", "delta", "init_offset", "local_offset")},
        },
        {},
    ),
    "DoubleSparsityTopKMaskerConfig": (
        "double_sparsity",
        {
            name: name
            for name in (
                "heavy_size",
                "sorted_channel_file",
                "group_factor",
                "label_bits",
                "channel_selection",
            )
        },
        {"dense_layers": []},
    ),
    "LocalMaskerConfig": ("local", {"window_size": "window_size"}, {}),
    "OracleTopKConfig": ("oracle_top_k", {"heavy_size": "heavy_size"}, {}),
    "OracleTopPMaskerConfig": ("oracle_top_p", {"top_p": "top_p"}, {"of": "rest"}),
    "PQCacheConfig": (
        "pq_cache",
        {"heavy_size": "heavy_size", "pq_sub_dim": "sub_dim", "pq_bits": "bits"},
        {"share": "head"},
    ),
    "QuestTopKMaskerConfig": (
        "quest",
        {name: name for name in ("heavy_size", "page_size", "label_bits")},
        {"dense_layers": []},
    ),
    "RandomSamplingMaskerConfig": ("random_sampling", {"sampling_rate": "rate"}, {}),
    "SinkMaskerConfig": ("sink", {"sink_size": "sink_size"}, {}),
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
    if name not in _STEPS:
        names = ", ".join((_COMPOSITION, *_STEPS))
        raise ValueError(f"{name} has no equal here; of sparse-attention-hub there are {names}")
    step, parameters, missing = _STEPS[name]
    others = {one.name for one in fields(value)} - {*parameters, *_UNUSED}
    if others:
        raise ValueError(f"{name}: {', '.join(sorted(others))} has no equal here; remove it")
    known_parameters = {ours: getattr(value, field) for field, ours in parameters.items()}
    return {step: {**known_parameters, **missing}}
