"""From a prompt's texts to token ids, and back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.cell import Config
from benchfleet.domain.thinking import PROMPT_END_CHARACTERS, Thinking
from benchfleet.models.base import Prompt, PromptView

_NO_TEMPLATE = "this tokenizer has no chat template, so the messages' texts are joined"
_UNLIMITED_TOKENS = 10**9  # tokenizers that know of no limit say a huge number


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A prompt as token ids; the question holds at least one."""

    context: tuple[int, ...]
    question: tuple[int, ...]
    truncated: bool  # the middle of the context was cut out
    prompt_end: str = ""  # the last characters of its text

    @property
    def length(self) -> int:
        return len(self.context) + len(self.question)


class Encoder:
    """A tokenizer with what a model's prompts begin with, and how long they may be."""

    def __init__(self, tokenizer: Any, *, max_length: int | None) -> None:
        self._tokenizer = tokenizer
        self._lead = self._leading_tokens()
        self._template_kwargs: Mapping[str, Any] = {}
        self._tags: Mapping[int, str] = {}  # special tokens that answers keep
        limits = [max_length, getattr(tokenizer, "model_max_length", None)]
        known_limits = [
            int(limit) for limit in limits if limit is not None and limit < _UNLIMITED_TOKENS
        ]
        self._max_length = min(known_limits, default=None)

    @property
    def has_template(self) -> bool:
        """Whether messages become a text by a chat template."""
        return bool(getattr(self._tokenizer, "chat_template", None))

    def configure(self, config: Config) -> None:
        """Take the config's options of the chat template, and keep its tags of reasoning."""
        chat, thinking = config.chat or {}, Thinking.of(config.thinking)
        effort = {"reasoning_effort": chat["effort"]} if chat.get("effort") else {}
        self._template_kwargs = {**effort, **(chat.get("template_kwargs") or {})}
        tags = (thinking.start, thinking.end) if thinking else ()
        special = {self._tokenizer.convert_tokens_to_ids(tag): tag for tag in tags}
        ids = set(getattr(self._tokenizer, "all_special_ids", ()) or ())
        self._tags = {token: tag for token, tag in special.items() if token in ids}

    def encode(self, prompt: Prompt, *, max_new_tokens: int) -> Encoded:
        """Context and question apart, the special tokens that lead a text once before them.

        The tokens are those of the whole text; one that lies in both parts belongs to the
        question. A text that already begins with them, as templated ones do, gets no second set.
        Messages become one text by the tokenizer's chat template, which is all context.
        Too long for the model and its answer, the context loses its middle. Where there is no
        question, the context's last token stands for it. Raises ValueError where nothing is left
        to encode.
        """
        if prompt.messages:
            prompt = Prompt(context=self._templated(prompt.messages))
        prompt_end = prompt.text[-PROMPT_END_CHARACTERS:]
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
            context=tuple(context),
            question=tuple(question),
            truncated=len(context) < whole,
            prompt_end=prompt_end,
        )

    def view(self, prompt: Prompt, *, max_new_tokens: int) -> PromptView:
        """The prompt as text and as the tokens of `encode`. Raises as it does."""
        encoded = self.encode(prompt, max_new_tokens=max_new_tokens)
        tokens = (*encoded.context, *encoded.question)
        return PromptView(
            text=self._templated(prompt.messages) if prompt.messages else prompt.text,
            tokens=tokens,
            pieces=token_texts(self._tokenizer, tokens),
            context_tokens=len(encoded.context),
            truncated=encoded.truncated,
            note="" if self.has_template or not prompt.messages else _NO_TEMPLATE,
        )

    def encode_all(
        self, prompts: Sequence[Prompt], *, max_new_tokens: int, keeps_errors: bool
    ) -> tuple[list[Encoded], dict[int, str]]:
        """Those that can be encoded, in their order, and why the others cannot, by position.
        Raises ValueError for the first of these unless `keeps_errors`."""
        encoded, errors = list[Encoded](), dict[int, str]()
        for position, prompt in enumerate(prompts):
            try:
                encoded.append(self.encode(prompt, max_new_tokens=max_new_tokens))
            except ValueError as error:
                if not keeps_errors:
                    raise
                errors[position] = str(error)
        return encoded, errors

    def decode(self, ids: Sequence[int]) -> str:
        """The text of an answer, without special tokens but the config's tags."""
        for position, token in enumerate(ids):
            if token in self._tags:
                before, after = self.decode(ids[:position]), self.decode(ids[position + 1 :])
                return before + self._tags[token] + after
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def count(self, text: str) -> int:
        """The tokens of a text, without those that lead one."""
        return len(self._ids(text))

    def budget(
        self, thinking: Thinking | None, prompt_end: str
    ) -> Callable[[Sequence[int]], int | None]:
        """The next token of an answer where it is forced: once the reasoning has as many tokens as
        its budget, it is closed (arXiv 2501.19393)."""
        if thinking is None or not thinking.budget:
            return lambda ids: None
        most, closing = thinking.budget, self._ids(thinking.end)
        opened, start, end = thinking.opens(prompt_end), thinking.start, thinking.end

        def forced(ids: Sequence[int]) -> int | None:
            if not most <= len(ids) < most + len(closing):
                return None
            text = self.decode(ids[:most])
            is_open = end not in text and (opened or start in text)
            return closing[len(ids) - most] if is_open else None

        return forced

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

    def _templated(self, messages: Sequence[tuple[str, str]]) -> str:
        """The messages as one text; a model without a template reads their texts alone."""
        if not self.has_template:
            return Prompt(messages=tuple(messages)).text
        text: str = self._tokenizer.apply_chat_template(
            [{"role": role, "content": content} for role, content in messages],
            tokenize=False,
            add_generation_prompt=True,
            **self._template_kwargs,
        )
        return text

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


def token_texts(tokenizer: Any, tokens: Sequence[int]) -> tuple[str, ...]:
    """What each token stands for, as its vocabulary has it."""
    return tuple(map(str, tokenizer.convert_ids_to_tokens(list(tokens))))
