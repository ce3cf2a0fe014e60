"""How answers are generated: the settings a campaign may give, and the choice of each token."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf
from typing import TYPE_CHECKING, Any

from benchfleet.hints import hint

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
    repetition_penalty: float | None = None  # None: the checkpoint's own; 1: none

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Generation:
        """From a campaign's generation settings. Raises ValueError with what to do."""
        for message in cls.problems(value).values():
            raise ValueError(message)
        stop = value.get("stop") or ()
        return cls(**{**value, "stop": (stop,) if isinstance(stop, str) else tuple(stop)})

    @classmethod
    def problems(cls, value: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong with each setting and what to do about it, by the setting's name."""
        known_names = [field.name for field in fields(cls)]
        problems: dict[str, str] = {}
        for name, setting in value.items():
            if name not in known_names:
                problems[name] = f"no generation setting {name!r}; {hint(name, known_names)}"
            else:
                right, rule = _CHECKS[name]
                if not right(setting):
                    problems[name] = f"{name} must be {rule}, not {setting!r}"
        return problems

    def generators(self, texts: Sequence[str], device: Any) -> list[Generator]:
        """The randomness of each prompt: the same in any batch and after any resume."""
        import torch

        if not self.temperature:
            return []
        seeds = [hashlib.sha256(f"{self.seed}\0{text}".encode()).digest()[:8] for text in texts]
        generators = [torch.Generator(device=device) for _ in texts]
        for generator, seed in zip(generators, seeds, strict=True):
            generator.manual_seed(int.from_bytes(seed, "big") >> 1)
        return generators

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
        ends = [position for stop in self.stop if (position := text.find(stop)) >= 0]
        return text[: min(ends)] if ends else text


def penalized(logits: Tensor, texts: Sequence[Sequence[int]], penalty: float | None) -> Tensor:
    """`logits`, [batch, vocabulary], with each token that a row's text holds made less likely, as
    `generate` of transformers does (arXiv 1909.05858)."""
    import torch

    if penalty is None or penalty == 1:
        return logits
    logits = logits.clone()
    for row, ids in enumerate(texts):
        index = torch.tensor(sorted(set(ids)), device=logits.device)
        scores = logits[row, index]
        logits[row, index] = torch.where(scores < 0, scores * penalty, scores / penalty)
    return logits


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _stops(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value != ""
    listed = isinstance(value, (list, tuple))
    return listed and all(isinstance(text, str) and text for text in value)


_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "max_new_tokens": (lambda value: _whole(value, 1), "a whole number from 1 up"),
    "temperature": (lambda value: _number(value) and 0 <= value < inf, "a number from 0 up"),
    "top_p": (lambda value: _number(value) and 0 < value <= 1, "above 0 and at most 1"),
    "top_k": (lambda value: _whole(value, 0), "a whole number from 0 up"),
    "seed": (lambda value: _whole(value, 0), "a whole number from 0 up"),
    "repetition_penalty": (
        lambda value: value is None or (_number(value) and 0 < value < inf),
        "a number above 0",
    ),
    "stop": (_stops, "a list of texts, none of them empty"),
}
