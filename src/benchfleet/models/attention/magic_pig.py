"""MagicPIG: keys sampled by locality-sensitive hashing (arXiv 2410.16179)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import (
    AttentionConfig,
    check_common,
    check_number,
)
from benchfleet.models.attention.selection import grouped_product
from benchfleet.models.attention.state import KeyState, Shape, State
from benchfleet.models.attention.view import View

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class MagicPig(AttentionConfig):
    """Keep the keys whose code equals the query's in at least `tables` of `l` tables of `k` bits.

    A bit is the side of a random plane. Keys are centred on the mean of the context's keys, queries
    are not. A kept key has the weight 1 / (probability of that many equal codes at its angle).
    """

    samples: ClassVar[bool] = True

    k: int = 10
    l: int = 150  # noqa: E741  # the paper's name
    center: bool = True
    seed: int = 42
    tables: int = 2
    question: str = "sparse"
    dense_layers: tuple[int, ...] = (0, 16, 32, 48)

    def __post_init__(self) -> None:
        check_number("k", self.k, 1, 15)
        check_number("l", self.l, 1)
        check_number("tables", self.tables, 1, self.l)
        check_common(self)
        if not isinstance(self.center, bool):
            raise ValueError(f"center may not be {self.center!r}; use true or false")

    def new_state(self, shape: Shape) -> State:
        return Tables(self, shape)

    def keep(self, view: View) -> Tensor:
        import torch

        tables: Tables = view.state
        query = view.query.float()
        batch, heads, queries, _ = query.shape
        folded = (batch, view.key.shape[1], -1, 1)
        query_codes = tables.codes(query)
        equal = torch.zeros(batch, heads, queries, view.key.shape[2], device=query.device)
        for table in range(self.l):  # one table at a time, since all of them take too much memory
            one_code = query_codes[..., table].reshape(folded)
            same = one_code == tables.vectors[..., table].unsqueeze(2)
            equal += same.view(equal.shape)
        key = tables.centred(view.key)
        lengths = query.norm(dim=-1, keepdim=True) * key.norm(dim=-1).repeat_interleave(
            heads // key.shape[1], dim=1
        ).unsqueeze(2)
        cosine = (grouped_product(query, key) / lengths.clamp(min=1e-12)).clamp(-1, 1)
        chance = self.chance((1 - cosine.acos() / math.pi) ** self.k)
        return torch.where(equal >= self.tables, 1 / chance.clamp(min=1e-6), 0.0)

    def chance(self, same: Tensor) -> Tensor:
        """The probability that at least `tables` codes are equal, where one is with `same`."""
        import torch

        fewer = torch.zeros_like(same)
        for hits in range(self.tables):
            fewer += math.comb(self.l, hits) * same**hits * (1 - same) ** (self.l - hits)
        return 1 - fewer


class Tables(KeyState):
    """The code of each key in each table: int16 [batch, key heads, keys, tables]."""

    def __init__(self, config: MagicPig, shape: Shape) -> None:
        import torch

        super().__init__()
        random = torch.Generator().manual_seed(config.seed + shape.layer)
        planes = torch.randn(shape.dim, config.l * config.k, generator=random)
        self._planes = planes.to(shape.device)  # drawn on the CPU: the same on each device
        self._config = config
        self._mean: Tensor | None = None

    def fit(self, key: Tensor, valid: Tensor) -> None:
        if self._config.center:
            counted = valid[:, None, :, None]
            total = key.float().masked_fill(~counted, 0.0).sum(2, keepdim=True)
            self._mean = total / counted.sum(2, keepdim=True).clamp(min=1)

    def centred(self, key: Tensor) -> Tensor:
        """The keys without the mean of the context's keys: float32."""
        return key.float() if self._mean is None else key.float() - self._mean

    def vector(self, key: Tensor) -> Tensor:
        return self.codes(self.centred(key))

    def codes(self, vectors: Tensor) -> Tensor:
        """The code of each vector in each table: int16 [batch, heads, length, tables]."""
        import torch

        bits = (vectors @ self._planes) >= 0
        bits = bits.unflatten(-1, (self._config.l, self._config.k))
        powers = 2 ** torch.arange(self._config.k, device=vectors.device)
        return (bits * powers).sum(-1).short()

    def rows(self, index: Tensor) -> None:
        super().rows(index)
        if self._mean is not None:
            self._mean = self._mean[index]
