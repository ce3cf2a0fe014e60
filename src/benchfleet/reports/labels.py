"""Names as labels: short, distinct, and without effect on the direction of what is beside them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import TypeVar

from benchfleet.domain.plain_text import one_line

Key = TypeVar("Key")
MAX_LABEL_PX = 220  # pixels of a name in a chart; the pointer shows the whole

_ISOLATE, _END = "\u2068", "\u2069"  # FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE
# The blocks of scripts that are written from right to left.
_BLOCKS = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_WORDS = re.compile(f"[{_BLOCKS}]+(?: [{_BLOCKS}]+)*")
_JOINT = re.compile(r"( [×/] |/)")  # what joins names
_CUT = "…"
_MAX_WORD = 16  # letters; a label begins with a whole word where it is no longer
# The widths of a sans-serif font such as Arial, as parts of the font's size.
_WIDTHS = {"'ijl|": 0.23, " !,./:;I[\\]ft": 0.28, "`()-r": 0.34, "w": 0.73, "GOQ": 0.78, "mM": 0.84}
_UPPER_CASE, _OTHERS, _WIDE = 0.68, 0.56, 1.0


def isolated(name: str, begin: str = _ISOLATE, end: str = _END) -> str:
    """A name in one line, or names that × or / joins. Each that has a script from right to left is
    between `begin` and `end`, so that it turns nothing beside it around."""
    parts = _JOINT.split(one_line(name))
    return "".join(f"{begin}{part}{end}" if _WORDS.search(part) else part for part in parts)


def isolated_words(sentence: str, begin: str, end: str) -> str:
    """A sentence in one line, with words from right to left between `begin` and `end`."""
    return _WORDS.sub(lambda words: f"{begin}{words.group()}{end}", one_line(sentence))


def subset_length(subset: str) -> int | None:
    """The context length of a subset such as ``4096`` or ``32k``."""
    match = re.fullmatch(r"(\d+)(k?)", subset, re.IGNORECASE)
    return int(match[1]) * (1024 if match[2] else 1) if match else None


def distinct(labels: Mapping[Key, str]) -> dict[Key, str]:
    """The labels of different things, with a number where they are equal."""
    used: set[str] = set()
    result = {}
    for key, text in labels.items():
        label, number = text, 1
        while label in used:
            number += 1
            label = f"{text} ({number})"
        used.add(label)
        result[key] = label
    return result


def shortened(names: Iterable[str], px: float, font_px: float = 12.0) -> dict[str, str]:
    """The label of each name, about `px` pixels wide at most: too long ones lose their middle, or
    the beginning that they share. Different names have different labels."""
    return distinct(_shortened([*dict.fromkeys(names)], px / font_px))


def _shortened(names: Sequence[str], room: float) -> dict[str, str]:
    short = {name: _without_middle(name, room) for name in names}
    same: dict[str, list[str]] = {}
    for name, label in short.items():
        same.setdefault(label, []).append(name)
    for group in same.values():
        start = _first_difference(group) if len(group) > 1 else 0
        if start:
            rests = [name[start:] for name in group]
            head_room = room - _width(_CUT) - max(map(_width, rests))
            tails = {rest: rest for rest in rests}
            if head_room < 0:
                tails = _shortened(rests, room - _width(_CUT))
            for name, rest in zip(group, rests, strict=True):
                short[name] = _joined(_head(name, head_room), tails[rest])
    return short


def _first_difference(names: Sequence[str]) -> int:
    """Where the word begins that is the first to differ; the very letter in a long word."""
    columns = zip(*names, strict=False)
    word = shared = sum(1 for _ in takewhile(lambda letters: len({*letters}) == 1, columns))
    while word and names[0][word - 1].isalnum():
        word -= 1
    return word if word and shared - word <= _MAX_WORD else shared


def _without_middle(name: str, room: float) -> str:
    if _width(name) <= room:
        return name
    head = _head(name, (room - _width(_CUT)) / 2)
    tail = _head(name[::-1], room - _width(_CUT) - _width(head))[::-1]
    return _joined(head, tail)


def _joined(head: str, tail: str) -> str:
    """Both ends of a cut name; isolates that the cut opened are closed."""
    head += _END * (head.count(_ISOLATE) - head.count(_END))
    tail = _ISOLATE * (tail.count(_END) - tail.count(_ISOLATE)) + tail
    return f"{head}{_CUT}{tail}"


def _head(name: str, room: float) -> str:
    for length, char in enumerate(name):
        room -= _em(char)
        if room < 0:
            return name[:length]
    return name


def _width(text: str) -> float:
    """About how wide a text is, as a multiple of its font's size."""
    return sum(map(_em, text))


@cache
def _em(char: str) -> float:
    """The width of a letter, as a part of the font's size."""
    if unicodedata.category(char) in ("Mn", "Cf"):
        return 0.0
    for letters, width in _WIDTHS.items():
        if char in letters:
            return width
    if char in "%@W…" or unicodedata.east_asian_width(char) in ("W", "F"):
        return _WIDE
    return _UPPER_CASE if char.isupper() else _OTHERS
