"""Asking a model as the cell's config says: its answers one by one, without their reasoning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from benchfleet.domain.canonical import content_digest
from benchfleet.domain.question_draws import seed_of_draw
from benchfleet.domain.thinking import PROMPT_END_CHARACTERS, Thinking, split_thinking
from benchfleet.models.base import Adapter, Answer, Prompt

from .records import Record
from .session import Session


def ask(
    session: Session,
    prompts: Sequence[Prompt],
    generation: Mapping[str, Any],
    *,
    sample: int | None = None,
) -> Iterator[tuple[int, Answer]]:
    """Each answer with the position of its prompt. A batch is answered whole; the answers of an
    `independent` adapter come one by one, and those before a failure are not lost."""
    adapter, thinking = session.adapter, Thinking.of(session.config.thinking)
    prompts = [in_chat(prompt, session.config.chat) for prompt in prompts]
    stops: Sequence[str] = ()
    if thinking:  # a stop may occur in the reasoning
        stop = generation.get("stop") or ()
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        generation = {name: value for name, value in generation.items() if name != "stop"}
    for position, answer in _answers(session, adapter, prompts, generation, sample):
        yield position, _without_thinking(answer, thinking, stops, adapter) if thinking else answer


def _answers(
    session: Session,
    adapter: Adapter,
    prompts: Sequence[Prompt],
    generation: Mapping[str, Any],
    sample: int | None,
) -> Iterator[tuple[int, Answer]]:
    if not adapter.independent:
        with session.asking(len(prompts), sample=sample):
            answers = adapter.answer(prompts, generation)
        if len(answers) != len(prompts):
            raise ValueError(f"{len(answers)} answers to {len(prompts)} prompts")
        yield from enumerate(answers)
        return
    with closing(adapter.answer_each(prompts, generation)) as coming:
        while True:
            with session.asking(1):
                answered = next(coming, None)
            if answered is None:
                return
            yield answered


def generation_of_draw(generation: Mapping[str, Any], draw: int) -> Mapping[str, Any]:
    """The settings of one of several answers to a question: each has another seed."""
    seed = int(generation.get("seed") or 0)
    return {**generation, "seed": seed_of_draw(seed, draw)} if draw else generation


def in_chat(prompt: Prompt, chat: Mapping[str, Any] | None) -> Prompt:
    """The prompt as messages, if the config has a chat: with its system message first."""
    if chat is None:
        return prompt
    messages = prompt.messages or (("user", prompt.text),)
    if system := str(chat.get("system") or ""):
        if messages[0][0] == "system":  # the benchmark has one, too
            messages = (("system", f"{system}\n\n{messages[0][1]}"), *messages[1:])
        else:
            messages = (("system", system), *messages)
    return Prompt(messages=messages)


def answer_fields(answer: Answer) -> dict[str, Any]:
    """The fields of a record that an answer fills."""
    return {
        "predicted_answer": answer.text,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "seconds": answer.seconds,
        "measures": answer.measures,
        "finish": answer.finish,
        "error": answer.error,
        "reasoning": answer.reasoning,
        "reasoning_tokens": answer.reasoning_tokens,
        "thought": answer.thought,
    }


def context_digest(context: str) -> str:
    """What tells contexts apart, so that statistics know which samples share one; ``""`` without
    a context."""
    return content_digest(context)[:16] if context else ""


def split_again(record: Record, thinking: Thinking | None) -> Record:
    """The record with its text split by other tags. One whose server split it stays."""
    thought = record.thought
    if record.error or (record.reasoning and not thought) or "separate" in thought:
        return record
    if thinking is None and not thought:
        return record
    before, after, tail = (str(thought.get(name, "")) for name in ("before", "after", "tail"))
    text = before + record.reasoning + after + record.predicted_answer + tail
    stops, prompt_end = thought.get("stops") or (), str(thought.get("prompt_end", ""))
    own = thought if thinking is None else {"prompt_end": prompt_end, "stops": list(stops)}
    answer = Answer(
        text=text,
        prompt_tokens=record.prompt_tokens,
        completion_tokens=record.completion_tokens,
        prompt_end=prompt_end,
        thought=own,
    )
    split = _without_thinking(answer, thinking, stops, None)
    unchanged = (split.text, split.reasoning) == (record.predicted_answer, record.reasoning)
    if unchanged and bool(split.thought.get("unclosed")) == bool(thought.get("unclosed")):
        return record
    resume = dict(record.resume)
    requests: list[Any] = resume.get("asked") or []
    if len(requests) == 1 and len(requests[0]) == 2:  # as lm-eval reads it
        resume["asked"] = [[requests[0][0], split.text]]
    return replace(
        record,
        predicted_answer=split.text,
        reasoning=split.reasoning,
        reasoning_tokens=split.reasoning_tokens,
        thought=split.thought,
        resume=resume,
    )


def _without_thinking(
    answer: Answer, thinking: Thinking | None, stops: Sequence[str], adapter: Adapter | None
) -> Answer:
    """The answer alone, with its reasoning beside it."""
    if answer.error:
        return answer
    if answer.reasoning:  # the server has split it
        thought: dict[str, Any] = {"separate": True}
        tokens = answer.reasoning_tokens or _tokens(answer, answer.reasoning, adapter)
        return replace(answer, thought=thought, reasoning_tokens=tokens)
    split = split_thinking(answer.text, thinking, prompt_end=answer.prompt_end, stops=stops)
    parts = {
        "before": split.before,
        "after": split.after,
        "tail": split.tail,
        "unclosed": split.unclosed,
        "prompt_end": answer.prompt_end[-PROMPT_END_CHARACTERS:],
        "stops": list(stops),
    }
    return replace(
        answer,
        text=split.answer,
        reasoning=split.reasoning,
        reasoning_tokens=_tokens(answer, split.reasoning, adapter) if split.reasoning else 0,
        finish="stop" if split.tail else answer.finish,
        thought={name: value for name, value in parts.items() if value},
    )


def _tokens(answer: Answer, reasoning: str, adapter: Adapter | None) -> int:
    """By the adapter's tokenizer, or else by the share of the characters."""
    counted = adapter.count_tokens(reasoning) if adapter else None
    if counted is not None:
        return counted
    whole = len(reasoning) + (0 if reasoning in answer.text else len(answer.text))
    share = len(reasoning) / max(whole, len(answer.text), 1)
    return max(1, round(answer.completion_tokens * share))
