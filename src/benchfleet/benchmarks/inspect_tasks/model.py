"""The slot's model as Inspect asks it. Imports Inspect: for slots alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    Model,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo

from benchfleet.benchmarks.base import Session
from benchfleet.benchmarks.model_client import ModelClient
from benchfleet.domain.sample_end import sample_end
from benchfleet.errors import CellFailure
from benchfleet.models.base import Answer, Prompt

_PROVIDER = "benchfleet"
_MAX_TOKENS = 2048  # Inspect's own where a task names none
_GATHER_S = 0.005  # seconds in which questions of several samples become one batch
_SETTINGS = {
    "max_tokens": "max_new_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop_seqs": "stop",
}
_STOP_REASONS: Mapping[str, Any] = {"length": "max_tokens", "refused": "content_filter"}
_REFUSED = (
    *("best_of", "frequency_penalty", "presence_penalty", "logit_bias", "num_choices", "logprobs"),
    *("top_logprobs", "prompt_logprobs", "response_schema"),
)


@dataclass(kw_only=True, eq=False)
class _Question:
    prompt: Prompt
    generation: Mapping[str, Any]
    answer: Answer | None = None
    error: Exception | None = None


@dataclass(kw_only=True)
class Ending:
    """Why no further question is asked: a failure of the model, or the cell has to stop."""

    reason: BaseException | None = None


# Arguments of a model are written to the log, so a session reaches its model by this list.
_SESSIONS: list[tuple[Session, Ending]] = []


def slot_model(session: Session, ending: Ending) -> Model:
    """The session's model as a model of Inspect."""
    _SESSIONS.append((session, ending))
    try:
        return get_model(f"{_PROVIDER}/{session.model.name}", memoize=False)
    finally:
        _SESSIONS.clear()


@modelapi(name=_PROVIDER)
class SlotModel(ModelAPI):  # type: ignore[misc]
    """Asks the session's adapter. Every answer is recorded at once, for the next attempt."""

    def __init__(self, model_name: str, **settings: Any) -> None:
        super().__init__(model_name=model_name)
        self._session, self._ending = _SESSIONS[-1]
        self._client = ModelClient(self._session)
        self._waiting: list[_Question] = []

    @property
    def at_once(self) -> int:
        """The questions that are asked as one batch."""
        adapter = self._session.adapter
        return max(adapter.requests_at_once if adapter.independent else self._session.batch_size, 1)

    def max_tokens(self) -> int:
        return _MAX_TOKENS

    def max_connections(self) -> int:
        return self.at_once

    def should_retry(self, ex: Exception) -> bool:
        return False  # the adapter repeats what may be repeated

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        if tools and tool_choice != "none":
            names = ", ".join(tool.name for tool in tools)
            raise ValueError(f"the task offers tools ({names}), which adapters do not call")
        question = _Question(prompt=_prompt(input), generation=self._generation(config))
        self._waiting.append(question)
        if self.at_once > 1:
            await anyio.sleep(_GATHER_S)
        if question in self._waiting:
            self._answer_waiting(question.generation)
        if question.error:
            raise question.error
        return self._output(question.answer or Answer(text=""))

    def _answer_waiting(self, generation: Mapping[str, Any]) -> None:
        """Answer the questions that wait with the same settings, as one batch."""
        batch = [one for one in self._waiting if one.generation == generation][: self.at_once]
        self._waiting = [one for one in self._waiting if one not in batch]
        try:
            if self._ending.reason:
                raise self._ending.reason
            answers = self._client.answer([one.prompt for one in batch], generation)
        except BaseException as error:  # noqa: BLE001 - a stop is no error of the task
            self._ending.reason = self._ending.reason or error
            for one in batch:
                one.error = RuntimeError(str(error) or "the cell has to stop")
            return
        for one, answer in zip(batch, answers, strict=True):
            one.answer = answer

    def _generation(self, config: GenerateConfig) -> dict[str, Any]:
        """The task's settings under the campaign's names, below those of the campaign."""
        for name in _REFUSED:
            if getattr(config, name, None) is not None:
                raise ValueError(f"the task sets {name}, which adapters do not take")
        values = {ours: getattr(config, theirs) for theirs, ours in _SETTINGS.items()}
        own = {name: value for name, value in values.items() if value is not None}
        return {"max_new_tokens": _MAX_TOKENS, **own, **self._session.generation}

    def _output(self, answer: Answer) -> ModelOutput:
        finish = _STOP_REASONS.get(sample_end({"finish": answer.finish}), "stop")
        output = ModelOutput.from_content(self.model_name, answer.text, stop_reason=finish)
        total = answer.prompt_tokens + answer.completion_tokens
        output.usage = ModelUsage(
            input_tokens=answer.prompt_tokens,
            output_tokens=answer.completion_tokens,
            total_tokens=total,
        )
        output.metadata = {"measures": dict(answer.measures), "seconds": answer.seconds}
        if answer.error:
            output.metadata["error"] = answer.error
        return output


def _prompt(messages: Sequence[ChatMessage]) -> Prompt:
    """The messages with their roles. Raises ValueError for images and the like."""
    for message in messages:
        parts = [] if isinstance(message.content, str) else message.content
        others = {part.type for part in parts} - {"text", "reasoning"}
        if others:
            raise ValueError(f"the task asks with {', '.join(sorted(others))}; adapters take text")
    return Prompt(messages=tuple((str(one.role), one.text) for one in messages))


def model_failure(ending: Ending) -> None:
    """Raise what ended the questions, if anything did."""
    reason = ending.reason
    if reason is None:
        return
    if isinstance(reason, CellFailure) or not isinstance(reason, Exception):
        raise reason
    raise CellFailure(stage="benchmark", kind="error", message=str(reason)) from reason
