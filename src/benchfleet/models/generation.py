"""How answers are generated: the settings a campaign may give, and the choice of each token."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Generator, Tensor


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The settings of generation; greedy unless `temperature` is above 0."""

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0: all tokens
    seed: int = 0  # with the prompt's text, gives each prompt its own randomness
    stop: tuple[str, ...] = ()  # the answer ends before the first of these

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Generation:
        """From a campaign's generation settings. Raises ValueError with what to do."""
        known = [field.name for field in fields(cls)]
        for name in value:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known)}"
                raise ValueError(f"no generation setting {name!r}; {hint}")
        given = dict(value)
        stop = given.get("stop", ())
        given["stop"] = (stop,) if isinstance(stop, str) else tuple(_listed(stop))
        return cls(**given)

    def __post_init__(self) -> None:
        _check_whole("max_new_tokens", self.max_new_tokens, least=1)
        _check_whole("top_k", self.top_k, least=0)
        _check_whole("seed", self.seed, least=0)
        if not _number(self.temperature) or not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature must be a number from 0 up, not {self.temperature!r}")
        if not _number(self.top_p) or not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p!r}")
        if not all(isinstance(text, str) and text for text in self.stop):
            raise ValueError("stop must be a list of texts, none of them empty")

    def generators(self, texts: Sequence[str], device: Any) -> list[Generator]:
        """The randomness of each prompt: the same in any batch and after any resume."""
        import torch

        if not self.temperature:
            return []
        seeds = [hashlib.sha256(f"{self.seed}\0{text}".encode()).digest()[:8] for text in texts]
        made = [torch.Generator(device=device) for _ in texts]
        for generator, seed in zip(made, seeds, strict=True):
            generator.manual_seed(int.from_bytes(seed, "big") >> 1)
        return made

    def choose(self, logits: Tensor, generators: Sequence[Generator]) -> list[int]:
        """The next token of each row of `logits`, [batch, vocabulary]."""
        import torch

        if not self.temperature:
            return [int(token) for token in logits.argmax(-1).tolist()]
        logits = logits.float() / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, float("-inf"))
        chances = logits.softmax(-1)
        if self.top_p < 1:
            ordered, order = chances.sort(dim=-1, descending=True)
            beyond = ordered.cumsum(-1) - ordered >= self.top_p  # never the likeliest
            chances = chances.masked_fill(torch.zeros_like(beyond).scatter(-1, order, beyond), 0.0)
        return [
            int(torch.multinomial(row, 1, generator=generator))
            for row, generator in zip(chances, generators, strict=True)
        ]

    def cut(self, text: str) -> str:
        """`text` up to the first stop in it."""
        ends = [place for stop in self.stop if (place := text.find(stop)) >= 0]
        return text[: min(ends)] if ends else text


def _listed(stop: Any) -> Sequence[Any]:
    if stop is None:
        return ()
    if not isinstance(stop, (list, tuple)):
        raise ValueError(f"stop must be a list of texts, not {stop!r}")
    return stop


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_whole(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number from {least} up, not {value!r}")
