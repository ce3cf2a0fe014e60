"""From a prompt's texts to token ids, and back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.models.base import Prompt

_UNLIMITED_TOKENS = 10**9  # tokenizers that know of no limit say a huge number


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A prompt as token ids; the question holds at least one."""

    context: tuple[int, ...]
    question: tuple[int, ...]
    truncated: bool  # the middle of the context was cut out

    @property
    def length(self) -> int:
        return len(self.context) + len(self.question)


class Encoder:
    """A tokenizer with what a model's prompts begin with, and how long they may be."""

    def __init__(self, tokenizer: Any, *, max_length: int | None) -> None:
        self._tokenizer = tokenizer
        self._lead = self._leading_tokens()
        limits = [max_length, getattr(tokenizer, "model_max_length", None)]
        known_limits = [
            int(limit) for limit in limits if limit is not None and limit < _UNLIMITED_TOKENS
        ]
        self._max_length = min(known_limits, default=None)

    def encode(self, prompt: Prompt, *, max_new_tokens: int) -> Encoded:
        """Context and question apart, the special tokens that lead a text once before them.

        The tokens are those of the whole text; one that lies in both parts belongs to the
        question. A text that already begins with them, as templated ones do, gets no second set.
        Too long for the model and its answer, the context loses its middle. Where there is no
        question, the context's last token stands for it. Raises ValueError where nothing is left
        to encode.
        """
        if prompt.messages:
            raise ValueError("messages with roles need a chat server; give this model one text")
        context, question = self._split(prompt)
        first = context or question
        if first[: len(self._lead)] != self._lead:
            context = self._lead + context
        if not question:
            context, question = context[:-1], context[-1:]
        if not question:
            raise ValueError("the prompt is empty, and this model's texts begin with no token")
        whole = len(context)
        context = self._truncate_context(context, len(question) + max_new_tokens)
        return Encoded(
            context=tuple(context), question=tuple(question), truncated=len(context) < whole
        )

    def decode(self, ids: Sequence[int]) -> str:
        """The text of an answer, without special tokens."""
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def stopper(self, stops: Sequence[str]) -> Callable[[Sequence[int]], bool]:
        """Whether an answer's tokens have come to one of the stops."""
        # Four tokens make a character at most, and the next few may share one.
        longest = 4 * max(map(len, stops), default=0) + 8

        def stopped(ids: Sequence[int]) -> bool:
            tail = self.decode(ids[-longest:])
            return any(stop in tail for stop in stops)

        return stopped if stops else lambda ids: False

    def _split(self, prompt: Prompt) -> tuple[list[int], list[int]]:
        """The ids of context and question. Tokenizers in Python cannot say where a token lies, so
        they encode the two apart."""
        if not (prompt.context and prompt.question and self._tokenizer.is_fast):
            return self._ids(prompt.context), self._ids(prompt.question)
        encoded = self._tokenizer(
            prompt.text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        ids, ends = encoded["input_ids"], [end for _, end in encoded["offset_mapping"]]
        count = bisect_right(ends, len(prompt.context))
        return [int(token) for token in ids[:count]], [int(token) for token in ids[count:]]

    def _truncate_context(self, context: list[int], others: int) -> list[int]:
        if self._max_length is None or len(context) + others <= self._max_length:
            return context
        room = self._max_length - others
        if room < 0:
            raise ValueError(
                f"question and answer take {others} tokens, but the model has room for"
                f" {self._max_length}; ask for fewer max_new_tokens"
            )
        head, tail = (room + 1) // 2, room // 2
        return context[:head] + context[len(context) - tail :]

    def _ids(self, text: str, *, special: bool = False) -> list[int]:
        ids = self._tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"]
        return [int(token) for token in ids]

    def _leading_tokens(self) -> list[int]:
        """The special tokens before a text; those after it (EOS, SEP) would end the answer."""
        plain, whole = self._ids("a"), self._ids("a", special=True)
        for start in range(len(whole) - len(plain) + 1):
            if plain and whole[start : start + len(plain)] == plain:
                return whole[:start]
        return []
