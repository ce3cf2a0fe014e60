"""A cell's prompts as lines for a terminal, and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from benchfleet.domain.humanize import counted
from benchfleet.models.base import PromptView
from benchfleet.slot.preview import Preview

_WIDTH = 100  # columns of a list of tokens


def prompt_lines(path: str, seen: Preview) -> list[str]:
    """The prompts one after another: what each is asked with, its text and its tokens."""
    samples = len({one.sample for one in seen.prompts})
    lines = [f"{path}: prompts of {counted(samples, 'sample')}, no weights loaded"]
    for before, one in zip([None, *seen.prompts], seen.prompts, strict=False):
        lines += [] if _is_choice_after(before, one) else [""]
        lines += _lines(one, before)
    return [*lines, *(f"note: {note}" for note in seen.notes)]


def prompt_json(path: str, fingerprint: str, seen: Preview) -> dict[str, Any]:
    """All of it."""
    return {
        "cell": path,
        "fingerprint": fingerprint,
        "prompts": [_json(one) for one in seen.prompts],
        "notes": list(seen.notes),
    }


def _lines(view: PromptView, before: PromptView | None) -> Iterator[str]:
    if before and _is_choice_after(before, view):  # its text was just printed
        yield f"or the likelihood of {_quoted(view.continuation)}"
        pairs = zip(before.tokens or (), view.tokens or (), strict=False)
        yield from _tokens(view, next((n for n, (a, b) in enumerate(pairs) if a != b), 0))
        return
    tokens = "tokens unknown" if view.tokens is None else counted(len(view.tokens), "token")
    parts = [f"sample {view.sample}", tokens]
    if view.context_tokens:
        parts.append(f"{view.context_tokens} of them context")
    if view.truncated:
        parts.append("cut: longer than the model takes")
    yield f"── {' · '.join(parts)}"
    if view.generation:
        yield f"asks: {_one_line(view.generation)}"
    if view.continuation:
        yield f"asks: the likelihood of {_quoted(view.continuation)}"
    for role, text in view.messages:
        yield f"[{role}]"
        yield from text.splitlines() or [""]
    if view.text:
        if view.messages:
            yield "as one text:"
        yield from view.text.splitlines()
    if view.request:
        body = {k: v for k, v in view.request.items() if k not in ("messages", "prompt")}
        yield f"request: {_one_line(body)}"
    yield from _tokens(view, 0)
    if view.note:
        yield f"note: {view.note}"


def _tokens(view: PromptView, start: int) -> Iterator[str]:
    if view.tokens is None:
        return
    pairs = [*zip(view.tokens, view.pieces, strict=True)][start:]
    # A token's own spaces must not be where a line breaks.
    words = " ".join(f"{id}={piece}".replace(" ", "·").replace("\n", "\\n") for id, piece in pairs)
    lines = textwrap.wrap(words, _WIDTH, break_long_words=False, break_on_hyphens=False)
    yield f"tokens from {start}: {words}" if start else "tokens:"
    yield from [] if start else lines


def _is_choice_after(before: PromptView | None, view: PromptView) -> bool:
    """Whether it asks for another continuation of the text before it."""
    return bool(
        before
        and view.continuation
        and before.sample == view.sample
        and before.text.removesuffix(before.continuation)
        == view.text.removesuffix(view.continuation)
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json(view: PromptView) -> dict[str, Any]:
    return {
        "sample": view.sample,
        "text": view.text,
        "messages": [{"role": role, "content": text} for role, text in view.messages],
        "tokens": None if view.tokens is None else list(view.tokens),
        "pieces": list(view.pieces),
        "context_tokens": view.context_tokens,
        "truncated": view.truncated,
        "continuation": view.continuation,
        "generation": dict(view.generation),
        "request": dict(view.request),
        "note": view.note,
    }


def _one_line(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, default=str)
