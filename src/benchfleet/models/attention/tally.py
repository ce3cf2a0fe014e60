"""What sparse attention looked at, counted by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class Tally:
    """Density and attention error by prompt, summed over layers and queries; with one row, of all
    prompts together."""

    def __init__(self, rows: int, device: Any) -> None:
        import torch

        exact = torch.float32 if torch.device(device).type == "mps" else torch.float64
        self._sums = torch.zeros(rows, 3, dtype=exact, device=device)

    def add(self, counted: Tensor, density: Tensor, error: Tensor) -> None:
        """One layer's mean over heads for each query, all [batch, queries], where `counted`."""
        import torch

        values = torch.stack((density, error, torch.ones_like(density)), -1)
        values = values.masked_fill(~counted.unsqueeze(-1), 0.0).to(self._sums)
        self._sums += values.reshape(len(self._sums), -1, 3).sum(1)

    def chosen(self, rows: Sequence[int]) -> Tally:
        """A tally of its own that starts from those rows."""
        twin = Tally(0, self._sums.device)
        twin._sums = self._sums[list(rows)].clone()
        return twin

    def means(self) -> list[tuple[float, float] | None]:
        """Density and attention error of each prompt, or None where nothing was counted."""
        return [(d / n, e / n) if n else None for d, e, n in self._sums.tolist()]

    def clear(self) -> None:
        """Start again."""
        self._sums.zero_()
