"""The reasoning of a model that thinks before it answers, and the answer without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PROMPT_END_CHARACTERS = 64  # of a prompt, kept with its answer: a template may open the block


@dataclass(frozen=True, kw_only=True)
class Thinking:
    """How a model marks its reasoning."""

    start: str = "<think>"
    end: str = "</think>"
    budget: int | None = None  # tokens of reasoning at most; None: no limit of its own
    opened: bool = False  # True: the template opens the block, where the prompt is not seen here

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Thinking:
        """From a campaign's settings. Raises ValueError with what to do."""
        for name in value:
            if name not in cls.__dataclass_fields__:
                raise ValueError(f"no key {name!r}; use {', '.join(cls.__dataclass_fields__)}")
        for name in ("start", "end"):
            if name in value and not (isinstance(value[name], str) and value[name].strip()):
                raise ValueError(f"{name} must be a tag, such as <think>, not {value[name]!r}")
        budget, opened = value.get("budget"), value.get("opened", False)
        if budget is not None and (type(budget) is not int or budget < 1):
            raise ValueError(f"budget must be a number of tokens from 1 up, not {budget!r}")
        if not isinstance(opened, bool):
            raise ValueError(f"opened must be true or false, not {opened!r}")
        return cls(**value)

    @classmethod
    def of(cls, value: Mapping[str, Any] | None) -> Thinking | None:
        """From checked settings; None for none."""
        return None if value is None else cls(**value)

    def opens(self, prompt_end: str) -> bool:
        """Whether the block is open where the answer begins."""
        return self.opened or prompt_end.rstrip().endswith(self.start)


@dataclass(frozen=True, kw_only=True)
class Thought:
    """A model's text, split: ``before + reasoning + after + answer + tail`` is all of it."""

    answer: str
    reasoning: str = ""
    before: str = ""
    after: str = ""
    tail: str = ""  # from the first stop on
    unclosed: bool = False

    @property
    def text(self) -> str:
        """All of it."""
        return self.before + self.reasoning + self.after + self.answer + self.tail


def split_thinking(
    text: str, thinking: Thinking | None, *, prompt_end: str = "", stops: Sequence[str] = ()
) -> Thought:
    """The answer is what follows the last end tag. A block that is not closed leaves an empty
    answer. `stops` end the answer, not the reasoning."""
    if thinking is None:
        return _cut(text, stops)
    start, end = thinking.start, thinking.end
    closed, first = text.rfind(end), text.find(start)
    rest = text[closed + len(end) :] if closed >= 0 else text
    opened = closed < 0 and thinking.opens(prompt_end)
    if start in rest or opened:
        before = text[: first + len(start)] if first >= 0 else ""
        return Thought(answer="", reasoning=text[len(before) :], before=before, unclosed=True)
    if closed < 0:
        return _cut(text, stops)
    before = text[: first + len(start)] if 0 <= first < closed else ""
    answer = rest.lstrip()
    whole = _cut(answer, stops)
    return Thought(
        answer=whole.answer,
        reasoning=text[len(before) : closed],
        before=before,
        after=end + rest[: len(rest) - len(answer)],
        tail=whole.tail,
    )


def _cut(text: str, stops: Sequence[str]) -> Thought:
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    return (
        Thought(answer=text[: min(ends)], tail=text[min(ends) :]) if ends else Thought(answer=text)
    )
