"""The answers of a harness run, recorded one document at a time as they come."""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchfleet.benchmarks.base import Record, Session
from benchfleet.domain.canonical import content_digest

_Place = tuple[int, int]  # a document's number, and the request's among its own


class Answers:
    """Stands where lm-eval keeps answers for another run (its ``CacheHook``): it is told of each
    as it comes, in any order, and records a document once all of its requests are answered.

    The requests of a task are known from its first answer on.
    """

    def __init__(
        self,
        *,
        task: Any,  # of lm-eval
        session: Session,
        tokens: Callable[..., int],  # of a text; add_special_tokens=False for an answer
        measures: Callable[[], Mapping[str, float]],
        clock: Callable[[], float],
    ) -> None:
        self._task = task
        self._session = session
        self._tokens, self._measures, self._clock = tokens, measures, clock
        self._before = clock()
        self._waiting: dict[str, deque[_Place]] | None = None
        self._requests: dict[int, list[Any]] = defaultdict(list)
        self._answers: dict[int, dict[int, Any]] = defaultdict(dict)  # the first of each request
        self._left: dict[int, int] = {}  # answers that a document still waits for
        self._measured: Mapping[str, float] = {}
        self._earlier = {record.index: record for record in session.recorded}

    def add_partial(self, attr: str, req: Sequence[Any], res: Any) -> None:
        """Take the answer to one request; lm-eval's name for it, and lm-eval's arguments."""
        waiting = self._expected()
        self._measured = self._measures()
        if places := waiting.get(_key(attr, req)):
            number, place = places.popleft()
            self._answers[number].setdefault(place, res)
            self._left[number] -= 1
            if not self._left[number]:
                self._record(number)
        self._session.check_stop()

    def finish(self) -> None:
        """Record what lm-eval answered without telling of it."""
        self._expected()
        for number in [number for number, left in self._left.items() if left]:
            for request in self._requests[number]:
                self._answers[number].setdefault(request.idx, request.resps[0])
            self._left[number] = 0
            self._record(number)

    def _expected(self) -> dict[str, deque[_Place]]:
        if self._waiting is None:
            self._waiting = defaultdict(deque)
            for request in self._task.instances:
                number, repeats = request.doc_id, request.repeats or 1
                key = _key(request.request_type, request.args)
                self._waiting[key].extend([(number, request.idx)] * repeats)
                self._requests[number].append(request)
                self._left[number] = self._left.get(number, 0) + repeats
        return self._waiting

    def _record(self, number: int) -> None:
        requests = sorted(self._requests[number], key=lambda request: request.idx)
        answers = [self._answers[number][request.idx] for request in requests]
        first, doc = requests[0], requests[0].doc
        likelihoods = [answer[0] if isinstance(answer, tuple) else answer for answer in answers]
        generated = first.request_type == "generate_until"
        choices = _choices(self._task, doc, requests)
        if generated:
            said = str(answers[0])
        elif choices:
            said = choices[max(range(len(choices)), key=likelihoods.__getitem__)]
        else:  # one text, which the model would have said or not
            greedy = isinstance(answers[0], tuple) and answers[0][1]
            said = first.args[-1].strip() if greedy else ""
        columns = {str(name): plain(value) for name, value in dict(doc).items()}
        digest = content_digest(columns)
        columns["target"] = _target(self._task, doc, choices)
        if not generated:
            columns["loglikelihoods"] = [plain(value) for value in likelihoods]
        now = self._clock()
        record = Record(
            index=number,
            id=f"{number}-{digest[:8]}",
            columns=columns,
            predicted_answer=said,
            prompt_tokens=self._tokens(first.args[0]),
            completion_tokens=self._tokens(said, add_special_tokens=False) if generated else 0,
            seconds=now - self._before,
            measures=self._measured,
        )
        self._before = now
        if not _same(record, self._earlier.get(number)):
            self._session.record(record)


def plain(value: Any) -> Any:
    """`value` as JSON has it; what JSON has no word for becomes text."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy's
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(inner) for inner in value]
    return str(value)


def _same(record: Record, earlier: Record | None) -> bool:
    """Whether an earlier attempt recorded this very answer."""
    return earlier is not None and (record.id, record.predicted_answer, record.columns) == (
        earlier.id,
        earlier.predicted_answer,
        earlier.columns,
    )


def _key(kind: str, arguments: Sequence[Any]) -> str:
    return json.dumps([kind, *arguments], sort_keys=True, default=str)


def _choices(task: Any, doc: Any, requests: Sequence[Any]) -> list[str]:
    """The choices of a multiple-choice document, in their order; none of any other."""
    if requests[0].request_type != "loglikelihood" or len(requests) < 2:
        return []
    if getattr(task.config, "doc_to_choice", None) is not None:
        return [str(choice) for choice in task.doc_to_choice(doc)]
    return [str(request.args[-1]).strip() for request in requests]


def _target(task: Any, doc: Any, choices: Sequence[str]) -> Any:
    """What would have been right: the text of a choice rather than its number."""
    inputs = bool(choices) and bool(getattr(task, "multiple_input", 0))  # they are the questions
    target = plain(task.doc_to_text(doc) if inputs else task.doc_to_target(doc))

    def text(one: Any) -> Any:
        if isinstance(one, bool) or not isinstance(one, int):
            return one
        return choices[one] if 0 <= one < len(choices) else one

    return [text(one) for one in target] if isinstance(target, list) else text(target)
