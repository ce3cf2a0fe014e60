"""Parameters of each attention config that tests run it with."""

from __future__ import annotations

from typing import Any

CASES: dict[str, list[dict[str, Any]]] = {
    "oracle_top_p": [{"top_p": 0.6}, {"top_p": 1.0}, {"top_p": 0.5, "of": "rest"}],
    "quest": [
        {"heavy_size": 6, "page_size": 3},
        {"heavy_size": 0.4, "page_size": 2, "share": "group"},
        {"heavy_size": 0, "page_size": 4},
        {"heavy_size": 99, "page_size": 4},
    ],
    "double_sparsity": [
        {"heavy_size": 4, "group_factor": 2},
        {"heavy_size": 0.3, "group_factor": 4, "share": "group", "channel_selection": "k_proj"},
        {"heavy_size": 99},
    ],
    "hash_attention": [{"heavy_size": 5, "bits": 6}, {"heavy_size": 0.2, "bits": 6}],
    "random_sampling": [{"rate": 0.3}, {"rate": 1.0}, {"rate": 0.8, "seed": 3}],
    "magic_pig": [
        {"k": 2, "l": 6},
        {"k": 1, "l": 3, "tables": 1, "center": False},
        {"k": 3, "l": 5, "tables": 3},
    ],
    "pq_cache": [
        {"heavy_size": 4, "bits": 2, "init_offset": 2},
        {"heavy_size": 0.3, "bits": 1, "sub_dim": 2, "share": "head"},
    ],
    "adaptive_sampling": [
        {"base_rate": 0.2, "epsilon": 0.5, "delta": 0.3},
        {"base_rate": 0.1, "epsilon": 0.05, "delta": 0.05},
        {"base_rate": 0.3, "epsilon": 1.0, "delta": 0.9, "init_offset": 1, "local_offset": 2},
    ],
}
CASES["oracle_top_k"] = [{"heavy_size": 4}, {"heavy_size": 0}]
FAST_NAMES = {
    "double_sparsity",
    "hash_attention",
    "oracle_top_k",
    "pq_cache",
    "quest",
    "random_sampling",
}
ONE_OF_EACH = [(name, cases[0]) for name, cases in CASES.items()]
