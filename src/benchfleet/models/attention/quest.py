"""Quest: pages of keys, ranked by a bound on their scores (arXiv 2406.10774)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import (
    AttentionConfig,
    check_common,
    check_number,
)
from benchfleet.models.attention.selection import (
    Picks,
    best_first,
    grouped_product,
    quantized,
    shared_scores,
)
from benchfleet.models.attention.state import Shape, State
from benchfleet.models.attention.view import Size, View
from benchfleet.models.room import appended

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Quest(AttentionConfig):
    """Keep the `heavy_size` / `page_size` pages (rounded up) whose keys may score best.

    A page's bound is the greatest score that a key between its least and greatest number of each
    channel could have. The page being filled is always kept and counts. ``share: group`` chooses
    once for all heads of a key head, by the greatest bound.
    """

    has_fast_form: ClassVar[bool] = True

    heavy_size: Size
    page_size: int = 16
    label_bits: int = 16  # fewer: bounds rounded to 2^bits levels
    share: str = "head"
    question: str = "sparse"
    dense_layers: tuple[int, ...] = (0, 1)

    def __post_init__(self) -> None:
        check_common(self)
        check_number("page_size", self.page_size, 1)

    def new_state(self, shape: Shape) -> State:
        return PageBounds(self.page_size)

    def keep(self, view: View) -> Picks:
        import torch

        bounds: PageBounds = view.state
        least, greatest = bounds.least, bounds.greatest
        if self.label_bits < 16:
            least, greatest = (
                quantized(least, self.label_bits),
                quantized(greatest, self.label_bits),
            )
        query = view.query.float()
        bound = grouped_product(query.relu(), greatest) - grouped_product((-query).relu(), least)
        if self.share == "group":
            bound = shared_scores(bound, view.key.shape[1])
        page = torch.arange(bound.shape[-1], device=bound.device)
        own = (view.seen - 1).clamp(min=0) // self.page_size  # the page being filled
        bound = bound.masked_fill(page == own, float("inf")).masked_fill(page > own, float("-inf"))
        budget = -(-view.count(self.heavy_size) // self.page_size)
        most = min(-(-view.most(self.heavy_size) // self.page_size), bound.shape[-1])
        pages = best_first(bound, most)  # [batch, heads or key heads, queries, pages]
        valid = (torch.arange(most, device=bound.device) < budget) & (pages <= own)
        ranks = pages.unsqueeze(-1) * self.page_size + torch.arange(
            self.page_size, device=bound.device
        )
        valid = (valid.unsqueeze(-1) & (ranks < view.seen.unsqueeze(-1))).flatten(-2)
        index = ranks.flatten(-2).clamp(max=view.key.shape[2] - 1)
        return Picks(index=view.columns_of(index), valid=valid)


class PageBounds(State):
    """The least and the greatest number of each channel in each page: [batch, key heads, pages,
    dim]. Pages hold keys by rank, so that padding shifts none."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._ranks: Tensor  # how many keys each row has up to each column: [batch, columns, 1]
        self.least: Tensor
        self.greatest: Tensor
        self._rooms: tuple[Tensor | None, Tensor | None, Tensor | None] = (None, None, None)

    def extend(self, key: Tensor, valid: Tensor) -> None:
        key = key.float()
        ranks = valid.cumsum(-1).unsqueeze(-1)
        if not self.seen:
            self._ranks, self.least = ranks[:, :0], key[:, :, :0]
            self.greatest = self.least
        else:
            ranks += self._ranks[:, -1:]
        room, low, high = self._rooms
        self._ranks, room = appended(self._ranks, room, self.seen, ranks)
        # As many pages as without padding: no need to ask the device how many keys there are.
        pages = -(-self._ranks.shape[1] // self._page_size)
        if (missing := pages - self.least.shape[2]) > 0:
            empty = key.new_full((*key.shape[:2], missing, key.shape[-1]), float("inf"))
            self.least, low = appended(self.least, low, pages - missing, empty)
            self.greatest, high = appended(self.greatest, high, pages - missing, -empty)
        self._rooms = room, low, high
        page = ((ranks - 1).clamp(min=0) // self._page_size)[:, None].expand_as(key)
        padding = ~valid[:, None, :, None]
        self.least.scatter_reduce_(2, page, key.masked_fill(padding, float("inf")), "amin")
        self.greatest.scatter_reduce_(2, page, key.masked_fill(padding, float("-inf")), "amax")

    def crop(self, length: int) -> None:
        if length >= self.seen:
            return
        if not length:
            self.seen = 0
            return
        # Pages that lose a key begin again with their first key; adding others twice is harmless.
        whole = self._ranks[:, length - 1] // self._page_size
        pages = int(whole.max())
        first_page = int(whole.min())
        page = slice(first_page, pages + 1)
        self.least[:, :, page] = float("inf")
        self.greatest[:, :, page] = float("-inf")
        self.least, self.greatest = self.least[:, :, : pages + 1], self.greatest[:, :, : pages + 1]
        start = first_page * self._page_size
        self.seen = int((self._ranks[:, :length] <= start).sum(1).min())
        self._ranks = self._ranks[:, : self.seen]

    def rows(self, index: Tensor) -> None:
        if self.seen:
            self._ranks = self._ranks[index]
            self.least, self.greatest = self.least[index], self.greatest[index]
