"""Queries, keys and masks as a model's layer has them, padded as batches are."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from attention_reference import built
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.view import View


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One call of a layer's attention. `tokens` says which columns are no padding."""

    query: torch.Tensor  # [batch, heads, queries, dim]
    key: torch.Tensor  # [batch, key heads, keys, dim]
    value: torch.Tensor
    tokens: torch.Tensor  # bool [batch, keys]
    scaling: float = 0.25
    softcap: float | None = None

    @property
    def visible(self) -> torch.Tensor:
        """[batch, 1, queries, keys]: no padding, nothing after the query."""
        queries, keys = self.query.shape[2], self.key.shape[2]
        causal = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
        return causal & self.tokens[:, None, None, :]

    @property
    def counted(self) -> torch.Tensor:
        """The queries that are no padding: [batch, queries]."""
        return self.tokens[:, -self.query.shape[2] :]

    @property
    def view(self) -> View:
        visible = self.visible
        return View(
            query=self.query,
            key=self.key,
            value=self.value,
            visible=visible,
            selected=torch.zeros_like(visible),
            scaling=self.scaling,
            softcap=self.softcap,
        )

    @property
    def module(self) -> Any:
        """What transformers hands over as the layer."""
        groups = self.query.shape[1] // self.key.shape[1]
        return SimpleNamespace(num_key_value_groups=groups, is_causal=True)


@pytest.fixture
def scene() -> Callable[..., Scene]:
    """Makes a scene of two key heads under `heads` heads.

    `rows` draws each row's columns: ``.`` is padding, anything else a token; the last `queries`
    of them are the queries.
    """

    def made(*rows: str, queries: int, heads: int = 4, seed: int = 0, **more: Any) -> Scene:
        random = torch.Generator().manual_seed(seed)

        def drawn(heads: int, length: int) -> torch.Tensor:
            return torch.randn(len(rows), heads, length, 8, generator=random)

        return Scene(
            query=drawn(heads, queries),
            key=drawn(2, len(rows[0])),
            value=drawn(2, len(rows[0])),
            tokens=torch.tensor([[column != "." for column in row] for row in rows]),
            **more,
        )

    return made


@pytest.fixture
def steps_of(tmp_path: Path) -> Callable[..., tuple[AttentionConfig, ...]]:
    """Builds steps; configs that read files get theirs, for two key heads under `heads` heads."""
    random = torch.Generator().manual_seed(5)

    def made(*steps: Any, heads: int = 4) -> tuple[AttentionConfig, ...]:
        whole = []
        for name, params in steps:
            if name == "double_sparsity":
                of = params.get("channel_selection", "qk_proj")
                lists = [
                    torch.randperm(8, generator=random).tolist()
                    for _ in range(2 if of == "k_proj" else heads)
                ]
                file = tmp_path / "channels.json"
                file.write_text(json.dumps({f"model.layers.0.self_attn.{of}": lists}))
                params = {**params, "sorted_channel_file": str(file)}
            if name == "hash_attention":
                sizes = [8, 5, 5, params["bits"]]
                tensors = {}
                for of in ("query", "key"):
                    for layer, (start, end) in enumerate(pairwise(sizes)):
                        weight = torch.randn(heads, start, end, generator=random)
                        tensors[f"layers.0.{of}.{layer}.weight"] = weight
                        tensors[f"layers.0.{of}.{layer}.bias"] = weight[:, 0].clone()
                file = tmp_path / "hash.safetensors"
                save_file(tensors, file)
                params = {**params, "weights": str(file)}
            whole.append((name, params))
        return built(*whole)

    return made
