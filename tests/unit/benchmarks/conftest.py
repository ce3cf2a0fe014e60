"""A session whose model is a function, so that benchmarks run without a slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchfleet.domain.cell import Model
from benchfleet.models.base import Answer, Prompt
from kept_sessions import KeptSession


@dataclass
class SaidAdapter:
    """Answers each prompt with what `say` makes of it, and remembers what it was asked."""

    independent = False

    say: Callable[[Prompt], str]
    batches: list[list[Prompt]] = field(default_factory=list)
    generations: list[Mapping[str, Any]] = field(default_factory=list)

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        self.batches.append(list(prompts))
        self.generations.append(generation)
        return [
            Answer(
                text=self.say(prompt),
                prompt_tokens=len(prompt.context),
                completion_tokens=1,
                seconds=0.5,
                measures={"density": 0.25},
            )
            for prompt in prompts
        ]

    @property
    def asked(self) -> list[Prompt]:
        return [prompt for batch in self.batches for prompt in batch]


@dataclass
class HeldSession(KeptSession):
    """A session that gives no notice; after `stop_after` records it is cancelled."""

    model: Model = Model(name="m", adapter="said", source="m", digest="m")  # noqa: RUF009 - frozen
    subset: str | None = None
    seed: int = 0

    def notice(self, message: str) -> None:
        raise AssertionError(message)


@pytest.fixture
def session() -> Callable[..., HeldSession]:
    """Makes a session: ``session(say, subset=…, …)`` with `say` from a prompt to an answer."""

    def made(say: Callable[[Prompt], str], **given: Any) -> HeldSession:
        return HeldSession(adapter=SaidAdapter(say), **given)

    return made
