"""HashAttention: keys ranked by how many bits of a learned code they share with the query (arXiv
2412.14468)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import AttentionConfig, check_number, check_size
from benchfleet.models.attention.selection import Picks, best_picks, grouped_product
from benchfleet.models.attention.state import KeyState, Shape, State
from benchfleet.models.attention.view import Size, View

if TYPE_CHECKING:
    from torch import Tensor

Network = list[tuple["Tensor", "Tensor"]]  # weight [heads, in, out] and bias [heads, 1, out]


@dataclass(frozen=True, kw_only=True)
class HashAttention(AttentionConfig):
    """Keep the `heavy_size` keys whose code equals the query's in the most bits.

    A code is the sign of a small network's output, 0 counted as positive. `weights` is a
    safetensors file with two networks for each layer: ``layers.N.query.I.weight`` [heads, in, out]
    and ``.bias`` [heads, out], and the same for ``key``, with SiLU between their linear layers I.
    ``benchfleet attention --convert`` makes it from the authors' pickles.
    """

    has_fast_form: ClassVar[bool] = True

    heavy_size: Size
    weights: str
    bits: int = 32

    def __post_init__(self) -> None:
        check_size("heavy_size", self.heavy_size)
        check_number("bits", self.bits, 1)

    def files(self) -> Mapping[str, Path]:
        return {"weights": Path(self.weights)}

    def new_state(self, shape: Shape) -> State:
        return Codes(self._network(shape, "query"), self._network(shape, "key"))

    def keep(self, view: View) -> Picks:
        codes: Codes = view.state
        equal_bits = grouped_product(codes.of_query(view.query), codes.vectors.float())
        count, most = view.count(self.heavy_size), view.most(self.heavy_size)
        return best_picks(equal_bits, view.open, count, most)

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        from safetensors.torch import load_file

        tensors: dict[str, Tensor] = load_file(self.weights)
        return tensors

    def _network(self, shape: Shape, of: str) -> Network:
        network: Network = []
        prefix = f"layers.{shape.layer}.{of}"
        while (name := f"{prefix}.{len(network)}") + ".weight" in self._tensors:
            weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
            network.append(
                (weight.to(shape.device).float(), bias.to(shape.device).float().unsqueeze(1))
            )
        sizes = network and (network[0][0].shape[:2], network[-1][0].shape[-1])
        if sizes != ((shape.heads, shape.dim), self.bits):
            raise ValueError(
                f"{self.weights} has no network {prefix} for {shape.heads} heads of {shape.dim}"
                f" channels and {self.bits} bits; use the weights of this model"
            )
        return network


class Codes(KeyState):
    """The code of each key for each head, bits as 1 and -1: int8 [batch, heads, keys, bits]."""

    def __init__(self, query: Network, key: Network) -> None:
        super().__init__()
        self._query, self._key = query, key

    def vector(self, key: Tensor) -> Tensor:
        heads = self._key[0][0].shape[0]
        return _code(key.repeat_interleave(heads // key.shape[1], dim=1), self._key).char()

    def of_query(self, query: Tensor) -> Tensor:
        """The code of each query: 1 and -1, float32 [batch, heads, queries, bits]."""
        return _code(query, self._query)


def _code(vectors: Tensor, network: Network) -> Tensor:
    from torch.nn.functional import silu

    output = vectors.float()
    for number, (weight, bias) in enumerate(network):
        output = silu(output) if number else output
        output = output @ weight + bias
    return (output >= 0).float() * 2 - 1
