"""A session whose model is a function, so that benchmarks run without a slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchfleet.benchmarks.base import Record
from benchfleet.domain.cell import Config
from benchfleet.domain.part import Part
from benchfleet.models.base import Answer, Prompt


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
class HeldSession:
    """A `Session` that holds what it is handed; `stop_after` records it is cancelled."""

    adapter: SaidAdapter
    subset: str | None = None
    config: Config = Config(name="dense")  # noqa: RUF009 - frozen
    seed: int = 0
    limit: int | None = None
    part: Part | None = None
    batch_size: int = 1
    samples_per_question: int = 1
    generation: Mapping[str, Any] = field(default_factory=dict)
    recorded: Sequence[Record] = ()
    stop_after: int | None = None
    kept: list[Record] = field(default_factory=list)
    expected: int | None = None

    def notice(self, message: str) -> None:
        raise AssertionError(message)

    def record(self, record: Record) -> None:
        self.kept.append(record)
        if len(self.kept) == self.stop_after:
            raise KeyboardInterrupt

    def expect(self, total: int) -> None:
        self.expected = total

    def asking(self, count: int, *, sample: int | None = None) -> AbstractContextManager[None]:
        return nullcontext()

    def check_stop(self) -> None:
        if self.stop_after == 0:
            raise KeyboardInterrupt


@pytest.fixture
def session() -> Callable[..., HeldSession]:
    """Makes a session: ``session(say, subset=…, …)`` with `say` from a prompt to an answer."""

    def made(say: Callable[[Prompt], str], **given: Any) -> HeldSession:
        return HeldSession(adapter=SaidAdapter(say), **given)

    return made
