"""The answers of an lm-eval run: recorded document by document, reused by the next attempt."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchfleet.benchmarks.asking import context_digest
from benchfleet.benchmarks.base import Record, Session, withdraw
from benchfleet.benchmarks.scoring import mean_measures
from benchfleet.domain.humanize import counted
from benchfleet.domain.lm_eval_layout import LIKELIHOODS, id_of_document

from .choices import choices_of, target_of
from .plain_values import columns_of, plain

DETAILS = ("finish", "error", "reasoning", "reasoning_tokens", "thought")  # fields of a record
_Position = tuple[int, int]  # a document's number, and the request's among its own


class Answers:
    """Replaces lm-eval's ``CacheHook``: receives each answer, in any order, and records a document
    once all of its requests are answered.

    A recorded document is reused where it and all of its requests are the same by content. The
    requests of a task are known once lm-eval has built it.
    """

    random_state = ""  # the state of the random numbers, where the last answer was drawn by them

    def __init__(
        self,
        *,
        task: Any,  # of lm-eval
        session: Session,
        tokens: Callable[..., int],  # of a text; add_special_tokens=False for an answer
        measures: Callable[[], Mapping[str, float]],
        details: Callable[[], Mapping[str, Any]] = dict,  # `DETAILS` of the last answer
        context: Callable[[], str] = str,
        takes_length: bool = False,  # see `SampleBenchmark`
        is_cut: Callable[[Any], bool] | None = None,  # whether a request is too long for the model
        clock: Callable[[], float],
    ) -> None:
        self._task = task
        self._session = session
        self._tokens, self._measures, self._clock = tokens, measures, clock
        self._details, self._context, self._takes_length = details, context, takes_length
        self._is_cut = is_cut
        self._before = clock()
        self._waiting: dict[str, deque[_Position]] | None = None
        self._requests: dict[int, list[Any]] = defaultdict(list)
        self._answers: dict[_Position, list[Any]] = defaultdict(list)  # one for each repeat
        self._remaining: dict[int, int] = {}  # answers that a document still waits for
        self._earlier_answers: dict[_Position, list[Any]] = {}  # the answers of an earlier attempt
        # of documents that still wait, not kept yet: each with its measures
        self._fresh: list[tuple[_Position, Any, Mapping[str, float]]] = []
        # that of the next answer among all that are to come
        self._numbers: dict[_Position, int] = {}
        self._measured: Mapping[str, float] = {}  # of the last answer
        # of the answers to each document that is not recorded yet
        self._measures_by_document: dict[int, list[Mapping[str, float]]] = defaultdict(list)
        self._changed = 0  # earlier documents whose requests are others now
        self._detail: dict[str, Any] = {}
        self._earlier = {record.index: record for record in session.recorded}
        self._parts: dict[str, list[Record]] = defaultdict(list)
        for record in sorted(session.recorded, key=lambda record: -record.index):
            if record.index < 0:
                self._parts[record.id].append(record)

    def add_partial(self, attr: str, req: Sequence[Any], res: Any) -> None:
        """Take the answer to one request; lm-eval's name for it, and lm-eval's arguments."""
        waiting = self._expected()
        self._measured, self._detail = self._measures(), {**self._details()}
        if self._takes_length and self._detail.get("finish") == "length":
            self._detail |= {"finish": "stop"}
        if positions := waiting.get(_key(attr, req)):
            position = positions.popleft()
            self._answers[position].append(res)
            self._measures_by_document[position[0]].append(self._measured)
            self._remaining[position[0]] -= 1
            if self._remaining[position[0]]:
                self._fresh.append((position, res, self._measured))
            else:
                self._record(position[0])
        self._session.check_stop()

    def keep_unfinished(self) -> None:
        """Keep the answers of documents that wait for others, for the next attempt alone: lm-eval
        asks the longest texts first, so that a document may wait long for its last one."""
        fresh, self._fresh = self._fresh, []
        for (number, idx), answer, measured in fresh:
            if not self._remaining[number]:
                continue
            request = next(one for one in self._requests[number] if one.idx == idx)
            count = self._numbers[number, idx]
            self._numbers[number, idx] += 1
            self._session.record(
                Record(
                    index=-1 - count,
                    id=_part(request),
                    columns={},
                    predicted_answer="",
                    measures=measured,
                    resume={"answer": plain(answer)},
                )
            )

    def recorded_answers(self, requests: Sequence[Any]) -> list[Any]:
        """The earlier answer to each of lm-eval's requests, which come as often as they are
        asked; None for what is to be asked."""
        self._expected()
        remaining = {
            position: deque(answers) for position, answers in self._earlier_answers.items()
        }
        positions = [(request.doc_id, request.idx) for request in requests]
        return [
            remaining[position].popleft() if remaining.get(position) else None
            for position in positions
        ]

    def random_state_after(self, number: int) -> str:
        """What `chance` was when a document of an earlier attempt was recorded."""
        record = self._earlier.get(number)
        return str(record.resume.get("chance", "")) if record else ""

    def finish(self) -> None:
        """Record what lm-eval answered without telling of it."""
        self._expected()
        for number in [number for number, remaining in self._remaining.items() if remaining]:
            for request in self._requests[number]:
                self._answers[number, request.idx] = list(request.resps)
            self._remaining[number] = 0
            self._record(number)

    def _expected(self) -> dict[str, deque[_Position]]:
        if self._waiting is None:
            self._waiting = defaultdict(deque)
            for request in self._task.instances:
                self._requests[request.doc_id].append(request)
            count = 0
            for number, requests in self._requests.items():
                requests.sort(key=lambda request: int(request.idx))
                whole = self._remember(number, requests)
                self._remaining[number] = 0
                for request in requests:
                    position, repeats = (number, request.idx), request.repeats or 1
                    if not whole and (part := self._take_earlier_part(request, repeats)):
                        self._earlier_answers[position], self._answers[position] = part, list(part)
                    answered = len(self._earlier_answers.get(position, ()))
                    self._remaining[number] += repeats - answered
                    self._numbers[position] = count + answered
                    count += repeats
                    key = _key(request.request_type, request.args)
                    self._waiting[key].extend([position] * (repeats - answered))
            if self._changed:
                questions = counted(self._changed, "question")
                self._session.notice(
                    f"{questions} asked again: the earlier answer has "
                    "another prompt, such as by another draw of few-shot examples"
                )
            others = {n for n in self._earlier if n >= 0} - self._requests.keys()
            withdraw(self._session, [self._earlier[number] for number in sorted(others)])
        return self._waiting

    def _take_earlier_part(self, request: Any, repeats: int) -> list[Any]:
        """Take what `keep_unfinished` kept of one request in an earlier attempt; its answers."""
        records = self._parts.get(_part(request), [])[:repeats]
        self._measures_by_document[request.doc_id] += [record.measures for record in records]
        return [_answer(request.request_type, record.resume["answer"]) for record in records]

    def _remember(self, number: int, requests: Sequence[Any]) -> bool:
        """Take an earlier attempt's answers to a document; False where they are not there, or are
        those of another."""
        record = self._earlier.get(number)
        if record is None or record.id != document_id(number, requests[0].doc):
            return False
        entries = record.resume.get("asked", [])
        if [entry[0] for entry in entries] != [_digest(request) for request in requests]:
            self._changed += 1
            return False
        answers = [
            [_answer(request.request_type, one) for one in entry[1:]]
            for request, entry in zip(requests, entries, strict=True)
        ]
        if any(len(a) != (r.repeats or 1) for a, r in zip(answers, requests, strict=True)):
            return False
        self._earlier_answers |= {
            (number, r.idx): a for a, r in zip(answers, requests, strict=True)
        }
        return True

    def _record(self, number: int) -> None:
        requests = self._requests[number]
        results = [self._answers.pop((number, request.idx)) for request in requests]
        answers = [of_request[0] for of_request in results]
        first, doc = requests[0], requests[0].doc
        likelihoods = [answer[0] if isinstance(answer, tuple) else answer for answer in answers]
        generated = first.request_type == "generate_until"
        choices = choices_of(self._task, doc, requests)
        if generated:
            predicted = str(answers[0])
        elif choices:
            predicted = choices[max(range(len(choices)), key=likelihoods.__getitem__)]
        else:  # one text, which the model would have said or not
            greedy = isinstance(answers[0], tuple) and answers[0][1]
            predicted = first.args[-1].strip() if greedy else ""
        columns = columns_of(doc)
        columns["target"] = target_of(self._task, doc, choices)
        if not generated:
            columns[LIKELIHOODS] = [plain(value) for value in likelihoods]
        entries = [[_digest(r), *map(plain, a)] for r, a in zip(requests, results, strict=True)]
        measures = mean_measures(self._measures_by_document.pop(number, []) or [self._measured])
        if self._is_cut is not None:
            measures = {**measures, "truncated": float(any(map(self._is_cut, requests)))}
        now = self._clock()
        record = Record(
            index=number,
            id=document_id(number, doc),
            columns=columns,
            predicted_answer=predicted,
            prompt_tokens=self._tokens(first.args[0]),
            completion_tokens=self._tokens(predicted, add_special_tokens=False) if generated else 0,
            seconds=now - self._before,
            measures=measures,
            **self._detail,
            context=context_digest(self._context()),
            resume={
                "asked": entries,
                **({"chance": self.random_state} if self.random_state else {}),
            },
        )
        self._before = now
        if not _same(record, self._earlier.get(number)):
            self._session.record(record)


def document_id(number: int, doc: Any) -> str:
    """The id of a document's sample: its number, and a digest of its columns."""
    return id_of_document(number, columns_of(doc))


def _same(record: Record, earlier: Record | None) -> bool:
    """Whether an earlier attempt recorded this very answer to these very requests."""
    return earlier is not None and _content(record) == _content(earlier)


def _content(one: Record) -> Any:
    return one.id, one.predicted_answer, one.columns, [e[0] for e in one.resume.get("asked", ())]


def _key(kind: str, arguments: Sequence[Any]) -> str:
    return json.dumps([kind, *arguments], sort_keys=True, default=str)


def _part(request: Any) -> str:
    """The id of one request of a document."""
    return f"{document_id(request.doc_id, request.doc)}-{request.idx}-{_digest(request)}"


def _digest(request: Any) -> str:
    key = _key(request.request_type, request.args)
    return hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _answer(kind: str, value: Any) -> Any:
    """An answer as lm-eval has it, from JSON."""
    if kind == "generate_until":
        return value
    return float(value) if kind == "loglikelihood_rolling" else (float(value[0]), value[1])
