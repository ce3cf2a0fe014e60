"""As many random keys as an error bound asks for: vAttention (arXiv 2510.05688)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

from benchfleet.models.attention.base import (
    AttentionConfig,
    check_common,
    check_fraction,
    check_size,
)
from benchfleet.models.attention.random_sampling import drawn, nth
from benchfleet.models.attention.selection import Picks
from benchfleet.models.attention.view import Size, View, fraction_of


@dataclass(frozen=True, kw_only=True)
class AdaptiveSampling(AttentionConfig):
    """Draw so many keys that the softmax's sum is within `epsilon` of its value with probability
    1 - `delta`, estimated from a first sample of `base_rate` of the keys.

    The keys are those not kept yet, without the first `init_offset` and the last `local_offset`.
    A small first sample underestimates how uneven peaked scores are: the error exceeds `epsilon`
    more often then. It bounds the error of the denominator; the paper bounds the numerator too.
    """

    version: ClassVar[int] = 2  # 2: the first sample is not drawn again, so the sum has no bias
    samples: ClassVar[bool] = True

    base_rate: float
    epsilon: float
    delta: float
    init_offset: Size = 0
    local_offset: Size = 0
    seed: int = 42

    def __post_init__(self) -> None:
        for name in ("base_rate", "epsilon", "delta"):
            check_fraction(name, getattr(self, name))
        check_size("init_offset", self.init_offset)
        check_size("local_offset", self.local_offset)
        check_common(self)

    def keep(self, view: View) -> Picks:
        import torch

        first, last = view.count(self.init_offset), view.count(self.local_offset)
        among = view.open & (view.rank > first) & (view.rank <= view.seen - last)
        many = among.sum(-1, keepdim=True)
        base = torch.minimum(fraction_of(self.base_rate, many).clamp(min=2), many)
        scores = view.scores().masked_fill(~view.visible, float("-inf"))
        greatest = scores.amax(-1, keepdim=True)
        values = (scores - greatest).exp().nan_to_num()  # the bound is the same at any scale
        most = max(2, fraction_of(self.base_rate, int(view.key.shape[2])))
        number = (view.uniform(most, seed=~self.seed) * many).long()  # not those of the draws
        sampled = values.gather(-1, nth(among, number.clamp(max=(many - 1).clamp(min=0))))
        counted = torch.arange(most, device=many.device) < base
        mean = sampled.masked_fill(~counted, 0.0).sum(-1, keepdim=True) / base.clamp(min=1)
        squares = ((sampled - mean) ** 2).masked_fill(~counted, 0.0).sum(-1, keepdim=True)
        deviation = (squares / (base - 1).clamp(min=1)).sqrt()
        total = values.masked_fill(~view.selected, 0.0).sum(-1, keepdim=True) + many * mean
        bound = NormalDist().inv_cdf(1 - self.delta / 2) * many * deviation / self.epsilon
        draws = (bound / total.clamp(min=1e-30)).square().ceil().clamp(max=2.0**31).long()
        draws = torch.minimum(draws.maximum(base), many)
        # It waits for the device: room for as many draws as there are keys would be too much.
        return drawn(view, among, draws, int(draws.max()), seed=self.seed)
