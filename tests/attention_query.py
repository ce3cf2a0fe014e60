"""One query of one head as slow loops see it: its keys, their scores, and which are the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch


def number(size: Any, of: int) -> int:
    return min(size, of) if isinstance(size, int) else math.ceil(Fraction(str(size)) * of)


@dataclass(frozen=True, kw_only=True)
class Query:
    """One query of one head, and the keys that it sees, in their order."""

    scene: Any
    step: Any
    state: Any
    row: int
    head: int
    query: int

    @property
    def seen(self) -> list[int]:
        keys = self.scene.key.shape[2]
        own = keys - self.scene.query.shape[2] + self.query
        return [column for column in range(own + 1) if self.scene.tokens[self.row, column]]

    @property
    def groups(self) -> int:
        return len(self.scene.query[0]) // len(self.scene.key[0])

    @property
    def heads(self) -> list[int]:
        """The heads that share this one's key head."""
        return [self.head - self.head % self.groups + place for place in range(self.groups)]

    def q(self, head: int | None = None) -> torch.Tensor:
        return self.scene.query[self.row, self.head if head is None else head, self.query].float()

    def k(self, column: int) -> torch.Tensor:
        return self.scene.key[self.row, self.head // self.groups, column].float()

    def score(self, column: int) -> float:
        return self.scaled(float(self.q() @ self.k(column)))

    def scaled(self, product: float) -> float:
        """A product as the softmax has it: scaled, then capped where the model caps."""
        score, cap = product * self.scene.scaling, self.scene.softcap
        return float(cap * math.tanh(score / cap) if cap else score)

    def softmax(self, columns: Sequence[int]) -> dict[int, float]:
        p = torch.tensor([self.score(column) for column in columns]).softmax(0)
        return dict(zip(columns, p.tolist(), strict=True))


def best(scores: Mapping[int, float], many: int) -> list[int]:
    """Of equal scores the later key."""
    return sorted(scores, key=lambda key: (-scores[key], -key))[:many]
