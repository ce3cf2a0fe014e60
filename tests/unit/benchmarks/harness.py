"""A harness that asks of a task in any order, and a session that holds what is recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

from benchfleet.benchmarks.base import Record
from benchfleet.benchmarks.lm_eval.answers import Answers


@dataclass
class Request:
    """What of lm-eval's `Instance` counts here."""

    doc_id: int
    args: tuple[Any, ...]
    doc: Mapping[str, Any]
    idx: int = 0
    request_type: str = "loglikelihood"
    repeats: int = 1
    resps: list[Any] = field(default_factory=list)


class Task:
    """A task whose documents hold their own choices and target."""

    def __init__(self, instances: Sequence[Request], *, choices: bool = True) -> None:
        self.instances = instances
        self.config = SimpleNamespace(doc_to_choice="choices" if choices else None)
        self.multiple_input = 0

    def doc_to_choice(self, doc: Mapping[str, Any]) -> Any:
        return doc["choices"]

    def doc_to_target(self, doc: Mapping[str, Any]) -> Any:
        return doc["gold"]

    def doc_to_text(self, doc: Mapping[str, Any]) -> Any:
        return doc["right"]


@dataclass
class Session:
    """Keeps records; `stop_after` checks it ends."""

    recorded: Sequence[Record] = ()
    stop_after: int | None = None
    kept: list[Record] = field(default_factory=list)
    checks: int = 0

    def record(self, record: Record) -> None:
        json.dumps(record.to_dict(), allow_nan=False)
        self.kept.append(record)

    samples_per_question = 1

    def notice(self, message: str) -> None:
        """Notices change nothing."""

    def check_stop(self) -> None:
        self.checks += 1
        if self.checks == self.stop_after:
            raise KeyboardInterrupt


def answers(task: Task, session: Session) -> Answers:
    ticks, densities = count(), count(1)
    return Answers(
        task=task,
        session=session,  # type: ignore[arg-type]
        tokens=lambda text, add_special_tokens=True: len(text) + add_special_tokens,
        measures=lambda: {"density": next(densities) / 10},
        clock=lambda: float(next(ticks)),
    )


def choice_requests(*docs: Mapping[str, Any]) -> list[Request]:
    return [
        Request(number, (doc["q"], f" {choice}"), doc, idx=place)
        for number, doc in enumerate(docs)
        for place, choice in enumerate(doc["choices"])
    ]


RED = {"q": "colour?", "choices": ["red", "blue"], "gold": 0}
ONE = {"q": "number?", "choices": ["two", "one"], "gold": [1]}
