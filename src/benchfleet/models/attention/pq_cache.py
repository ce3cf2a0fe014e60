"""PQCache: keys ranked by product quantisation (arXiv 2407.12820)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import (
    AttentionConfig,
    check_common,
    check_number,
)
from benchfleet.models.attention.hashing import uniform
from benchfleet.models.attention.selection import Picks, best_picks
from benchfleet.models.attention.state import KeyState, Shape, State
from benchfleet.models.attention.view import Size, View

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PQCache(AttentionConfig):
    """Keep the `heavy_size` keys whose nearest centroids score best with the query.

    Each sub-space of `sub_dim` channels (half of them by default) has 2^`bits` centroids, found
    by k-means over the context's keys without the first `init_offset`. Later keys take the nearest
    centroid. ``share: group`` chooses once for all heads of a key head, by the sum of their
    softmaxes, as the authors do.
    """

    has_fast_form: ClassVar[bool] = True

    heavy_size: Size
    sub_dim: int | None = None
    bits: int = 6
    iterations: int = 20
    seed: int = 42
    init_offset: int = 32
    share: str = "group"

    def __post_init__(self) -> None:
        check_common(self)
        if self.sub_dim is not None:
            check_number("sub_dim", self.sub_dim, 1)
        check_number("bits", self.bits, 1, 15)
        check_number("iterations", self.iterations, 0)
        check_number("init_offset", self.init_offset, 0)

    def new_state(self, shape: Shape) -> State:
        sub_dim = self.sub_dim or shape.dim // 2
        if shape.dim % sub_dim:
            raise ValueError(f"sub_dim {sub_dim} must divide the {shape.dim} channels of a head")
        return Centroids(self, sub_dim, shape.layer)

    def keep(self, view: View) -> Picks:
        centroids: Centroids = view.state
        scores = view.score_of(centroids.scores(view.query.float()))
        if self.share == "group":
            batch, _, queries, keys = scores.shape
            p = scores.masked_fill(~view.visible, float("-inf")).softmax(-1).nan_to_num()
            scores = p.view(batch, view.key.shape[1], -1, queries, keys).sum(2)
        return best_picks(
            scores, view.open, view.count(self.heavy_size), view.most(self.heavy_size)
        )


class Centroids(KeyState):
    """The centroids, [batch, key heads, parts, centroids, sub_dim], and the number of each key's
    nearest one in each part: int16 [batch, key heads, keys, parts]."""

    def __init__(self, config: PQCache, sub_dim: int, layer: int) -> None:
        super().__init__()
        self._config, self._sub_dim, self._layer = config, sub_dim, layer
        self.centroids: Tensor

    def fit(self, key: Tensor, valid: Tensor) -> None:
        import torch

        self.centroids = torch.stack([self._fitted(*each) for each in zip(key, valid, strict=True)])

    def _fitted(self, key: Tensor, valid: Tensor) -> Tensor:
        """The centroids of one row, whose key is [key heads, keys, dim]."""
        import torch

        many = 2**self._config.bits
        key = key[:, valid].float()
        key = key[:, self._config.init_offset :] if key.shape[1] > self._config.init_offset else key
        points = self._parts(key.unsqueeze(0))[0]  # [key heads, parts, keys, sub_dim]
        if not points.shape[2]:
            return points.new_zeros(*points.shape[:2], many, self._sub_dim)
        order = uniform(
            self._config.seed, self._layer, torch.arange(points.shape[2], device=key.device)
        ).argsort(stable=True)
        chosen = order.repeat(-(-many // len(order)))[:many]
        centroids = points[:, :, chosen]
        for _ in range(self._config.iterations):
            nearest = torch.cdist(points, centroids).argmin(-1, keepdim=True)
            members = torch.zeros_like(centroids[..., :1])
            members.scatter_add_(2, nearest, torch.ones_like(points[..., :1]))
            total = torch.zeros_like(centroids)
            total.scatter_add_(2, nearest.expand_as(points), points)
            centroids = torch.where(members > 0, total / members.clamp(min=1), centroids)
        return centroids

    def _parts(self, vectors: Tensor) -> Tensor:
        """[batch, heads, parts, length, sub_dim] of [batch, heads, length, dim]."""
        return vectors.unflatten(-1, (-1, self._sub_dim)).transpose(2, 3)

    def vector(self, key: Tensor) -> Tensor:
        import torch

        nearest = torch.cdist(self._parts(key.float()), self.centroids).argmin(-1)
        return nearest.transpose(2, 3).short()

    def scores(self, query: Tensor) -> Tensor:
        """Each query's product with each key's centroids: [batch, heads, queries, keys]."""
        import torch

        batch, heads, queries, _ = query.shape
        groups = heads // self.vectors.shape[1]
        parts = self._parts(query)  # [batch, heads, parts, queries, sub_dim]
        table = parts @ self.centroids.repeat_interleave(groups, 1).transpose(-1, -2)
        keys = self.vectors.shape[2]
        scores = torch.zeros(batch, heads, queries, keys, device=query.device)
        for part in range(table.shape[2]):
            code = self.vectors[..., part].long().repeat_interleave(groups, 1).unsqueeze(2)
            scores += table[:, :, part].gather(-1, code.expand(batch, heads, queries, keys))
        return scores

    def rows(self, index: Tensor) -> None:
        super().rows(index)
        self.centroids = self.centroids[index]
