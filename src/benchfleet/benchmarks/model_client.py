"""The model as a user's own code asks it: the slot's adapter, in the words such code knows."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from benchfleet.benchmarks.asking import answer_fields, ask, generation_of_draw
from benchfleet.benchmarks.base import Record, Session
from benchfleet.benchmarks.reported_scores import Report
from benchfleet.benchmarks.scoring import mean_measures
from benchfleet.domain.humanize import counted
from benchfleet.models.base import Answer, Prompt


@dataclass(frozen=True, kw_only=True)
class Response:
    """The answers to one request: a text for one question, a list for a list of them."""

    responses: str | list[str]


class ModelClient:
    """What a callable or a benchmark class is handed as `adapter`.

    Every call first sees whether the cell is to stop. What was answered is kept at once, below
    the samples of the result; the same question of the next attempt has the same answer, without
    the model. A question asked again is another one: the second time gets the second answer.
    Whatever else the adapter of the slot has is reached through this one.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._request_count = 0
        self._answered: list[Answer] = []  # in the order of the requests
        self._request_counts: Counter[str] = Counter()  # by the digest of the question
        self._earlier: dict[str, deque[Record]] = defaultdict(deque)
        for record in sorted(session.recorded, key=lambda record: -record.index):
            if record.index < 0:
                self._earlier[record.id].append(record)

    def answer(
        self, prompts: Sequence[Prompt | str], generation: Mapping[str, Any] | None = None
    ) -> list[Answer]:
        """Answer the prompts as one batch, in order; by the cell's generation kwargs where none
        are given."""
        self._session.check_stop()
        requests = [Prompt(context=p) if isinstance(p, str) else p for p in prompts]
        own = {name: _plain(value) for name, value in (generation or {}).items()}
        kwargs = {**self._session.generation, **own}
        ids = [_digest(prompt, kwargs) for prompt in requests]
        indices = range(-self._request_count - 1, -self._request_count - 1 - len(requests), -1)
        self._request_count += len(requests)
        draws = [self._draw(id) for id in ids]  # a question asked again: another seed
        recorded = [earlier.popleft() if (earlier := self._earlier[id]) else None for id in ids]
        answers = {number: _answer(record) for number, record in enumerate(recorded) if record}
        if len(answers) < len(requests):
            adapter, numbers = self._session.adapter, list(range(len(requests)))
            # A batch is asked whole, as at first: numbers depend on a prompt's neighbours.
            if adapter.independent:
                numbers = [number for number in numbers if number not in answers]
            for draw in sorted({draws[number] for number in numbers}):
                some = [number for number in numbers if draws[number] == draw]
                prompts_of_draw = [requests[number] for number in some]
                settings = generation_of_draw(kwargs, draw)
                for position, answer in ask(self._session, prompts_of_draw, settings):
                    if (number := some[position]) not in answers:
                        answers[number] = answer
                        self._session.record(_record(indices[number], ids[number], answer))
        in_order = [answers[number] for number in range(len(requests))]
        self._answered += in_order
        return in_order

    def with_answers(self, report: Report) -> Report:
        """The report with what the answers had. If there is a sample for each request, a sample
        with the answer of its request has also that answer's end, tokens, time and measures. Where
        some sample has another text, the score has those of all answers."""
        records = report.records
        answers = self._answered if len(self._answered) == len(records) else []
        matching = {
            n: answer
            for n, (record, answer) in enumerate(zip(records, answers, strict=False))
            if record.predicted_answer.strip() == answer.text.strip()
        }
        failed = sum(bool(one.error) for one in self._answered)
        if failed > sum(bool(one.error) for one in matching.values()):
            requests = counted(failed, "request")
            self._session.notice(f"{requests} failed for good; the callable got empty texts")
        all_match = len(matching) == len(self._answered)
        completed = _measured if all_match else _ended
        of_all = {} if all_match else _measures_of(self._answered)
        return Report(
            score=replace(report.score, measures=of_all),
            records=[
                completed(record, matching[n]) if n in matching else record
                for n, record in enumerate(records)
            ],
        )

    def _draw(self, id: str) -> int:
        """How often a question was asked before."""
        self._request_counts[id] += 1
        return self._request_counts[id] - 1

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


def _plain(value: Any) -> Any:
    """A number of NumPy as Python's own; anything else as it is."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def _digest(prompt: Prompt, generation: Mapping[str, Any]) -> str:
    """Of the question's whole content, so that no answer is given to another one."""
    requests: list[Any] = [prompt.context, prompt.question, dict(generation)]
    if prompt.messages:
        requests.append(prompt.messages)
    return hashlib.sha256(json.dumps(requests, sort_keys=True, default=repr).encode()).hexdigest()


def _record(index: int, id: str, answer: Answer) -> Record:
    return Record(index=index, id=id, columns={}, **answer_fields(answer))


def _answer(record: Record) -> Answer:
    return Answer(
        text=record.predicted_answer,
        prompt_tokens=record.prompt_tokens,
        completion_tokens=record.completion_tokens,
        seconds=record.seconds,
        measures=record.measures,
        finish=record.finish,
        error=record.error,
        reasoning=record.reasoning,
        reasoning_tokens=record.reasoning_tokens,
        thought=record.thought,
    )


def _ended(record: Record, answer: Answer) -> Record:
    """The sample with why its answer ended; what the sample says itself stays."""
    return replace(record, finish=record.finish or answer.finish, error=answer.error)


def _measured(record: Record, answer: Answer) -> Record:
    """The sample with all that its answer had beside the text; what it says itself stays."""
    return replace(
        _ended(record, answer),
        prompt_tokens=record.prompt_tokens or answer.prompt_tokens,
        completion_tokens=record.completion_tokens or answer.completion_tokens,
        seconds=record.seconds or answer.seconds,
        measures=answer.measures,
    )


def _measures_of(answers: Sequence[Answer]) -> dict[str, float]:
    """Tokens and seconds of all answers, and the mean of each measure."""
    return {
        "prompt_tokens": sum(answer.prompt_tokens for answer in answers),
        "completion_tokens": sum(answer.completion_tokens for answer in answers),
        "seconds": math.fsum(answer.seconds for answer in answers),
        **mean_measures(answer.measures for answer in answers),
    }
