"""Prompts as token ids, with tokenizers of the common habits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from benchfleet.models.base import Prompt
from benchfleet.models.encoding import Encoder

BOS, EOS, CLS = 1, 2, 3


class Letters:
    """A tokenizer of one token a letter; ``<s>`` in a text is its BOS, as with real ones."""

    is_fast = False

    def __init__(
        self,
        before: Sequence[int] = (BOS,),
        after: Sequence[int] = (),
        model_max_length: int = 10**30,
    ) -> None:
        self._before, self._after = list(before), list(after)
        self.model_max_length = model_max_length

    def __call__(
        self, text: str, *, add_special_tokens: bool, verbose: bool
    ) -> dict[str, list[int]]:
        marked = text.replace("<s>", chr(BOS))
        ids = [ord(letter) for letter in marked]
        return {"input_ids": self._before + ids + self._after if add_special_tokens else ids}

    def decode(
        self, ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> str:
        return "".join(chr(token) for token in ids if token > CLS)


class Words:
    """A fast tokenizer of words with the space before each, such as ``"ab cd"`` to ``"ab"``,
    ``" cd"``; ids are those of the vocabulary."""

    is_fast = True
    model_max_length = 10**30

    def __init__(self) -> None:
        self.vocabulary = ["<s>"]

    def __call__(
        self,
        text: str,
        *,
        add_special_tokens: bool,
        verbose: bool,
        return_offsets_mapping: bool = False,
    ) -> dict[str, Any]:
        pieces = list(re.finditer(" ?[^ ]+| ", text))
        for piece in pieces:
            if piece[0] not in self.vocabulary:
                self.vocabulary.append(piece[0])
        ids = [self.vocabulary.index(piece[0]) for piece in pieces]
        if add_special_tokens:
            return {"input_ids": [0, *ids]}
        return {"input_ids": ids, "offset_mapping": [piece.span() for piece in pieces]}


def encoded(
    tokenizer: Letters, context: str, question: str = "", *, limit: int | None = None, new: int = 4
) -> tuple[str, str, bool]:
    found = Encoder(tokenizer, max_length=limit).encode(
        Prompt(context=context, question=question), max_new_tokens=new
    )
    return "".join(map(chr, found.context)), "".join(map(chr, found.question)), found.truncated


@pytest.mark.parametrize(
    ("tokenizer", "prompt", "expected"),
    [
        (Letters(), ("abc", "de"), ("\x01abc", "de")),
        (Letters(after=[EOS]), ("abc", "de"), ("\x01abc", "de")),
        (Letters(before=[CLS, BOS], after=[EOS]), ("a", "b"), ("\x03\x01a", "b")),
        (Letters(before=[]), ("abc", "de"), ("abc", "de")),
        (Letters(), ("<s>abc", "de"), ("\x01abc", "de")),  # a templated text has its own
        (Letters(), ("", "<s>de"), ("", "\x01de")),
        (Letters(), ("", "de"), ("\x01", "de")),
        (Letters(before=[]), ("", "de"), ("", "de")),
    ],
)
def test_special_tokens_lead_the_context_once_and_never_the_question(
    tokenizer: Letters, prompt: tuple[str, str], expected: tuple[str, str]
) -> None:
    assert encoded(tokenizer, *prompt) == (*expected, False)


@pytest.mark.parametrize(
    ("context", "question", "tokens"),
    [
        ("ab cd", " ef", (["<s>", "ab", " cd"], [" ef"])),
        ("ab cd ", "ef", (["<s>", "ab", " cd"], [" ef"])),  # a token of both parts
        ("ab c", "d ef", (["<s>", "ab"], [" cd", " ef"])),
        ("a", "b", (["<s>"], ["ab"])),
        ("<s> ab", " cd", (["<s>", " ab"], [" cd"])),
    ],
)
def test_context_and_question_have_the_tokens_of_the_whole_text(
    context: str, question: str, tokens: tuple[list[str], list[str]]
) -> None:
    tokenizer = Words()
    encoded = Encoder(tokenizer, max_length=None).encode(
        Prompt(context=context, question=question), max_new_tokens=1
    )
    parts = (encoded.context, encoded.question)
    assert tuple([tokenizer.vocabulary[id] for id in part] for part in parts) == tokens


def test_without_a_question_the_last_token_of_the_context_stands_for_it() -> None:
    assert encoded(Letters(), "abc") == ("\x01ab", "c", False)
    assert encoded(Letters(), "") == ("", "\x01", False)


def test_an_empty_prompt_is_refused_where_nothing_leads_a_text() -> None:
    with pytest.raises(ValueError, match="the prompt is empty"):
        encoded(Letters(before=[]), "", "")


@pytest.mark.parametrize(
    ("limit", "context", "truncated"),
    [
        (17, "\x01abcdefghij", False),
        (16, "\x01abcdfghij", True),
        (11, "\x01abij", True),
        (10, "\x01aij", True),
        (7, "\x01", True),
        (6, "", True),
    ],
)
def test_too_long_a_context_loses_its_middle(limit: int, context: str, truncated: bool) -> None:
    assert encoded(Letters(), "abcdefghij", "de", limit=limit) == (context, "de", truncated)


def test_a_tokenizers_own_limit_holds_too() -> None:
    short = Letters(model_max_length=11)
    assert encoded(short, "abcdefghij", "de") == ("\x01abij", "de", True)
    assert encoded(short, "abcdefghij", "de", limit=10)[0] == "\x01aij"
    assert encoded(short, "abcdefghij", "de", limit=4000)[0] == "\x01abij"


def test_a_question_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match=r"question and answer take 7 tokens, but .* room for 6"):
        encoded(Letters(), "abc", "def", limit=6)


def test_a_stop_is_seen_in_the_last_tokens_even_across_them() -> None:
    stopped = Encoder(Letters(), max_length=None).stopper(["END", "\n"])
    ids = [ord(letter) for letter in "some words and then the E"]
    assert not stopped(ids)
    assert stopped([*ids, ord("N"), ord("D")])
    assert stopped([*ids, ord("\n")])
    assert not Encoder(Letters(), max_length=None).stopper([])(ids)


class Templated(Letters):
    """Has a chat template that begins with the BOS, as real ones do."""

    chat_template = "yes"

    def apply_chat_template(
        self, messages: Sequence[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        assert not tokenize
        assert add_generation_prompt
        return "<s>" + "".join(f"[{one['role']}]{one['content']}" for one in messages) + "[a]"


def test_messages_become_one_text_by_the_template_with_one_bos() -> None:
    encoder = Encoder(Templated(), max_length=None)
    encoded = encoder.encode(Prompt(messages=(("system", "be"), ("user", "q"))), max_new_tokens=1)
    assert encoder.decode(encoded.context + encoded.question) == "[system]be[user]q[a]"
    assert (encoded.context + encoded.question).count(BOS) == 1


def test_messages_of_a_model_without_a_template_are_their_texts() -> None:
    encoder = Encoder(Letters(), max_length=None)
    encoded = encoder.encode(Prompt(messages=(("system", "be"), ("user", "q"))), max_new_tokens=1)
    assert encoder.decode(encoded.context + encoded.question) == "be\nq"
