"""What a benchmark asks, what it records of each answer, and what all answers are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.errors import CellFailure
from benchfleet.models.base import Prompt


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One question of a benchmark."""

    index: int  # its place among all samples, from 0; a resume does not change it
    id: str  # of the question: the same in every config, another for other data
    prompt: Prompt
    columns: Mapping[str, Any] = field(default_factory=dict)  # the dataset's own, for the CSV
    question: str = ""  # the id of a question that other samples are about too
    context: str = ""  # the digest of a context that others may share; the prompt's by default


_OPTIONAL = (
    *("resume", "withdrawn", "finish", "error", "reasoning", "reasoning_tokens", "thought"),
    *("request", "question", "draw", "context"),
)


@dataclass(frozen=True, kw_only=True)
class Record:
    """A sample with the model's answer, as it is kept in ``samples.jsonl`` before scoring.

    The last record of an index counts. An index below 0 marks a partial answer: it is no sample of
    the result, and only the next attempt reads it, from `Session.recorded`.
    """

    index: int
    id: str
    columns: Mapping[str, Any]
    predicted_answer: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    measures: Mapping[str, float] = field(default_factory=dict)
    resume: Mapping[str, Any] = field(default_factory=dict)  # JSON that the next attempt needs
    withdrawn: bool = False  # True: removes the earlier record of this index
    finish: str = ""  # why the answer ended, as `Answer.finish`
    error: str = ""  # why there is no answer and never will be, as `Answer.error`
    reasoning: str = ""  # what the model thought before; never scored
    reasoning_tokens: int = 0  # of `completion_tokens`; an estimate where no tokenizer counts them
    thought: Mapping[str, Any] = field(default_factory=dict)  # what other tags need: see `Thought`
    request: str = ""  # the digest of the prompt and the settings
    question: str = ""  # the id of the question, if it has several answers or verdicts
    draw: int = 0  # which of them
    context: str = ""  # the digest of a context that other samples may share, as `context_digest`

    def to_dict(self) -> dict[str, Any]:
        """As JSON; `resume` and what follows it only where set."""
        optional = _OPTIONAL
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value or name not in optional}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Record:
        known_names = cls.__dataclass_fields__
        return cls(**{name: item for name, item in value.items() if name in known_names})


@dataclass(frozen=True, kw_only=True)
class Score:
    """What the answers are worth."""

    overall: float  # the headline; larger is better
    per_sample: Sequence[float] = ()  # one for each record, by ascending index; or empty
    tasks: Mapping[str, float] = field(default_factory=dict)  # scores of parts: depth, length, …
    summary: Mapping[str, Any] = field(default_factory=dict)  # anything else worth keeping
    parsed: Sequence[str] = ()  # what was taken from each text, for majority votes; or empty
    unscored: Sequence[int] = ()  # positions of the records without a score: no value counts there
    unparsed: Sequence[int] = ()  # positions of the records whose text holds no answer to score
    measures: Mapping[str, float] = field(default_factory=dict)  # of all answers: see `summarise`


def checked_score(value: Any, giver: object) -> Score:
    """The score that a plugin gave. Raises CellFailure for anything else."""
    if isinstance(value, Score):
        return value
    message = f"{type(giver).__name__} gave {value!r:.60} as its score; make it return a Score"
    raise CellFailure(stage="collect", kind="bad_result", message=message)
