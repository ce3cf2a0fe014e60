"""What a step keeps of a layer's keys from pass to pass: bounds of pages, labels, codes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchfleet.models.room import appended

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The attention of one layer."""

    layer: int
    heads: int
    key_heads: int
    dim: int
    device: torch.device


class State(ABC):
    """What a step derived from the keys of one layer. It follows the key-value cache.

    Keys are [batch, key heads, keys, dim]; `valid`, bool [batch, keys], is False for padding.
    """

    seen: int = 0  # the first `seen` columns are covered

    def update(self, key: Tensor, valid: Tensor) -> None:
        """Cover all of `key`; only columns from `seen` on are new."""
        if key.shape[2] > self.seen:
            self.extend(key[:, :, self.seen :], valid[:, self.seen :])
            self.seen = key.shape[2]

    def fit(self, key: Tensor, valid: Tensor) -> None:  # noqa: B027  # few states need it
        """Learn from the context: called once, with all its keys, before `update`."""

    @abstractmethod
    def extend(self, key: Tensor, valid: Tensor) -> None:
        """Cover new keys, behind the others."""

    @abstractmethod
    def crop(self, length: int) -> None:
        """Forget the columns from `length` on; `seen` may become less than `length`."""

    @abstractmethod
    def rows(self, index: Tensor) -> None:
        """Choose or repeat rows of the batch."""


class KeyState(State):
    """A state of one vector for each key: [batch, heads or key heads, keys, size]."""

    def __init__(self) -> None:
        self.vectors: Tensor  # once a key is covered
        self._room: Tensor | None = None

    @abstractmethod
    def vector(self, key: Tensor) -> Tensor:
        """The vectors of new keys."""

    def extend(self, key: Tensor, valid: Tensor) -> None:
        new = self.vector(key)
        stored = self.vectors if self.seen else new
        self.vectors, self._room = appended(stored, self._room, self.seen, new)

    def crop(self, length: int) -> None:
        if length < self.seen:
            self.vectors, self.seen = self.vectors[:, :, :length], length

    def rows(self, index: Tensor) -> None:
        if self.seen:
            self.vectors = self.vectors[index]
