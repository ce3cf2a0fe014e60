"""Keys drawn evenly at random, the baseline of arXiv 2410.16179 and 2510.05688."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import AttentionConfig, check_common, check_fraction
from benchfleet.models.attention.selection import Picks
from benchfleet.models.attention.view import View, fraction_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class RandomSampling(AttentionConfig):
    """Draw the fraction `rate` of the keys not kept yet, with replacement, for each query and head.

    Of m such keys b are drawn, and each draw adds m / b to the weight of its key, so that the
    softmax's sum has no bias. With b = m all are kept with weight 1.
    """

    samples: ClassVar[bool] = True
    has_fast_form: ClassVar[bool] = True

    rate: float
    seed: int = 42

    def __post_init__(self) -> None:
        check_fraction("rate", self.rate)
        check_common(self)

    def keep(self, view: View) -> Picks:
        many = view.open.sum(-1, keepdim=True)
        most = fraction_of(self.rate, int(view.key.shape[2]))
        return drawn(view, view.open, fraction_of(self.rate, many), most, seed=self.seed)


def drawn(view: View, among: Tensor, draws: Tensor, most: int, *, seed: int) -> Picks:
    """`draws` ([batch, 1 or heads, queries, 1]) draws with replacement from the keys `among` (bool,
    [batch, 1 or heads, queries, keys]); all of them once where there are as many draws.
    `most` is a number that no draws exceed."""
    import torch

    many = among.sum(-1, keepdim=True)
    most = max(1, most)
    order = torch.arange(most, device=among.device)
    chance = (view.uniform(most, seed=seed) * many).long().clamp(max=(many - 1).clamp(min=0))
    number = torch.where(draws >= many, order, chance)  # of the keys `among`, counted from 0
    index = nth(among, number)
    weight = many / draws.clamp(min=1)
    return Picks(index=index, valid=order < draws, weight=weight)


def nth(among: Tensor, number: Tensor) -> Tensor:
    """The columns of the keys with these numbers, counted from 0 among those that are True.

    `among` is [batch, 1 or heads, queries, keys], `number` and the answer [batch, heads, queries,
    draws]. A number without a key gives the last column.
    """
    import torch

    batch, heads, queries, draws = number.shape
    counted = among.cumsum(-1)
    if among.shape[1] == 1:  # all heads have the same keys: they lie side by side
        number = number.transpose(1, 2).reshape(batch, 1, queries, heads * draws)
    index = torch.searchsorted(counted, number.contiguous() + 1).clamp(max=among.shape[-1] - 1)
    if among.shape[1] == 1:
        index = index.view(batch, queries, heads, draws).transpose(1, 2)
    return index
