"""The model as a user's own code asks it: the slot's adapter, in the words such code knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.benchmarks.base import Session
from benchfleet.models.base import Answer, Prompt


@dataclass(frozen=True, kw_only=True)
class Response:
    """The answers to one request: a text for one question, a list for a list of them."""

    responses: str | list[str]


class AskingAdapter:
    """What a callable or a benchmark class is handed as `adapter`.

    Every call first sees whether the cell is to stop. Whatever else the adapter of the slot has
    is reached through this one.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def answer(
        self, prompts: Sequence[Prompt | str], generation: Mapping[str, Any] | None = None
    ) -> list[Answer]:
        """Answer the prompts as one batch, in order; by the cell's generation kwargs where none
        are given."""
        self._session.check_stop()
        asked = [Prompt(context=p) if isinstance(p, str) else p for p in prompts]
        kwargs = {**self._session.generation, **(generation or {})}
        return self._session.adapter.answer(asked, kwargs)

    def generate(self, prompts: str | Sequence[str], **generation: Any) -> Any:
        """The answer's text, or the texts where a list is asked, in batches of the cell's size."""
        if isinstance(prompts, str):
            return self.answer([prompts], generation)[0].text
        size = self._session.batch_size
        batches = (prompts[start : start + size] for start in range(0, len(prompts), size))
        return [answer.text for batch in batches for answer in self.answer(batch, generation)]

    def process_request(
        self,
        request: Any,
        generation_kwargs: Mapping[str, Any] | None = None,
        request_kwargs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> Response:
        """Answer a request that has `context`, `questions` and `answer_prefix`, as benchmark
        classes of sparse-attention-hub ask; the context is prefilled once for all questions.
        `request_kwargs` belong to that tool's own limits and change nothing here."""
        single = isinstance(request.questions, str)
        questions = [request.questions] if single else list(request.questions)
        prefix = getattr(request, "answer_prefix", "") or ""
        texts = [
            self.answer(
                [Prompt(context=request.context, question=f"{question}{prefix}")],
                generation_kwargs,
            )[0].text
            for question in questions
        ]
        return Response(responses=texts[0] if single else texts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session.adapter, name)
