"""Asking a model: its answers one by one, as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from benchfleet.models.base import Adapter, Answer, Prompt


def ask(
    adapter: Adapter,
    prompts: Sequence[Prompt],
    generation: Mapping[str, Any],
    *,
    asking: Callable[..., AbstractContextManager[None]],
    sample: int | None = None,
) -> Iterator[tuple[int, Answer]]:
    """Each answer with the position of its prompt. A batch is answered whole; the answers of an
    `independent` adapter come one by one, and those before a failure are not lost. `asking` is that
    of the session."""
    if not adapter.independent:
        with asking(len(prompts), sample=sample):
            answers = adapter.answer(prompts, generation)
        if len(answers) != len(prompts):
            raise ValueError(f"{len(answers)} answers to {len(prompts)} prompts")
        yield from enumerate(answers)
        return
    with closing(adapter.answer_each(prompts, generation)) as coming:
        while True:
            with asking(1):
                answered = next(coming, None)
            if answered is None:
                return
            yield answered
