"""The words in which one text differs from another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

MAX_COMPARED_WORDS = 400  # of one text; longer ones are shown without marks
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text that both have, that only this one has, or that it lacks."""

    kind: Literal["same", "added", "missing"]
    text: str


def word_difference(first: str, second: str) -> Sequence[Piece]:
    """The second text in pieces, with what it lacks of the first. Texts that are long, or have
    nothing in common, come as one piece."""
    if first == second:
        return [Piece("same", second)]
    before, after = _WORD.findall(first), _WORD.findall(second)
    if max(len(before), len(after)) > MAX_COMPARED_WORDS:
        return [Piece("same", second)]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if not any(word.strip() for word in set(before) & set(after)):
        return [Piece("added", second)] if second else [Piece("missing", first)]
    pieces = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            pieces.append(Piece("same", "".join(after[c:d])))
            continue
        if b > a:
            pieces.append(Piece("missing", "".join(before[a:b])))
        if d > c:
            pieces.append(Piece("added", "".join(after[c:d])))
    return pieces
