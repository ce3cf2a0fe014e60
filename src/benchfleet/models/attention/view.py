"""What one layer's queries see: the argument of `AttentionConfig.keep`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from benchfleet.models.attention.hashing import uniform
from benchfleet.models.attention.selection import capped, grouped_product

if TYPE_CHECKING:
    from torch import Tensor

Size = int | float  # a number of keys, or a fraction (float, 0 to 1) of those seen
Count = TypeVar("Count", int, "Tensor")


@dataclass(frozen=True, kw_only=True)
class View:
    """What one layer's queries see, and what earlier steps kept of it."""

    query: Tensor  # [batch, heads, queries, dim]
    key: Tensor  # [batch, key heads, keys, dim]; heads is a multiple of key heads
    value: Tensor  # [batch, key heads, keys, value dim]
    visible: Tensor  # bool [batch, 1 or heads, queries, keys]: causal, and no padding
    selected: Tensor  # bool [batch, 1 or heads, queries, keys], never beyond `visible`
    scaling: float  # of query · key before the softmax
    softcap: float | None = None  # scores are within ± this
    layer: int = 0
    layers: int = 1
    samples: Tensor | None = None  # int64 [batch]: a number for each row's prompt
    padded: bool = True  # False: no row has padding
    state: Any = None  # the `State` of this step and layer, where `new_state` made one

    @cached_property
    def rank(self) -> Tensor:
        """The position of each visible key among those its query sees, 1 for the first; `visible`'s
        shape."""
        return self.visible.cumsum(-1)

    @cached_property
    def seen(self) -> Tensor:
        """How many keys each query sees: [batch, 1 or heads, queries, 1]."""
        return self.visible.sum(-1, keepdim=True)

    @cached_property
    def open(self) -> Tensor:
        """The visible keys that no earlier step kept: [batch, 1 or heads, queries, keys]."""
        return self.visible & ~self.selected

    @cached_property
    def columns(self) -> Tensor:
        """For each row the columns of its keys in their order, padding last: [batch, keys]."""
        return (~self.visible[:, 0, -1]).byte().argsort(stable=True, dim=-1)

    def columns_of(self, ranks: Tensor) -> Tensor:
        """The columns of keys by rank, counted from 0: any [batch, heads, queries, many]."""
        if not self.padded:
            return ranks
        columns = self.columns[:, None, None].expand(*ranks.shape[:3], -1)
        return columns.gather(-1, ranks)

    def count(self, size: Size) -> Tensor:
        """`size` as a number of keys for each query, shaped as `seen`."""
        whole = isinstance(size, int)
        return self.seen.clamp(max=self.most(size)) if whole else fraction_of(size, self.seen)

    def most(self, size: Size) -> int:
        """A number of keys that `count` exceeds for no query, known without asking the device."""
        return size_of(size, int(self.key.shape[-2]))

    def scores(self) -> Tensor:
        """Each query's score of each key before the softmax, padding too: float32, [batch, heads,
        queries, keys]."""
        return self.score_of(grouped_product(self.query.float(), self.key.float()))

    def score_of(self, products: Tensor) -> Tensor:
        """The scores of products query · key: scaled, and capped where the model does so."""
        return capped(products * self.scaling, self.softcap)

    def uniform(self, draws: int, *, seed: int) -> Tensor:
        """Random numbers in [0, 1): float32, [batch, heads, queries, draws].

        They depend on seed, prompt, layer, head, the query's position and the draw alone: they are
        the same on each device, in any batch and any block of queries.
        """
        import torch

        heads = torch.arange(self.query.shape[1], device=self.query.device)
        samples = heads.new_zeros(len(self.query)) if self.samples is None else self.samples
        return uniform(
            seed,
            samples[:, None, None, None],
            self.layer,
            heads[None, :, None, None],
            self.seen,
            torch.arange(draws, device=heads.device),
        )


def fraction_of(size: float, of: Count) -> Count:
    """The fraction `size` of a number of keys, rounded up.

    The decimal that was written counts: 0.1 of 30 keys is 3, which floating point makes 4.
    """
    ratio = Fraction(str(size)).limit_denominator(10**12)
    return -(of * -ratio.numerator // ratio.denominator)


def size_of(size: Size, seen: int) -> int:
    """`size` as a number of `seen` keys."""
    return min(size, seen) if isinstance(size, int) else fraction_of(size, seen)
