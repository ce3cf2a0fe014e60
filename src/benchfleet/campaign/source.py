"""What a reader of campaign files gives back: plain data, and the line of every value in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KeyPath = tuple[str | int, ...]  # ("matrix", "models", 2, "needs", "vram")
MAX_DEPTH = 50
MAX_VALUES = 200_000  # aliases unfolded: a few lines can name billions
TOO_DEEP = f"is nested more than {MAX_DEPTH} deep; a campaign needs no more than ten"


class TooMuch(Exception):
    """More than a campaign file may hold; reading on could take for ever."""


class Bounds:
    """Counts the values of one file. Raises TooMuch, with what to do, beyond what it may hold."""

    def __init__(self) -> None:
        self._values = 0

    def count(self, depth: int) -> None:
        """One more value, `depth` deep."""
        self._values += 1
        if depth > MAX_DEPTH:
            raise TooMuch(TOO_DEEP)
        if self._values > MAX_VALUES:
            raise TooMuch(f"unfolds to more than {MAX_VALUES:,} values; use fewer aliases (*name)")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file as plain data: mappings with text keys, lists, text, finite numbers, truth, None.

    Flaws are what the reader itself found wrong; `data` is then as much as could be read.
    """

    data: Any = None
    lines: Mapping[KeyPath, int] = field(default_factory=dict)  # 1 for the first
    flaws: tuple[Flaw, ...] = ()

    def line(self, path: KeyPath) -> int | None:
        """The line of the value at `path`, or of the nearest thing around it that has one."""
        while path not in self.lines:
            if not path:
                return None
            path = path[:-1]
        return self.lines[path]


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """Something that keeps a file, or a value in it, from being read."""

    message: str
    path: KeyPath = ()
    line: int | None = None  # None: the line of what stands at `path`


def dotted(path: KeyPath) -> str:
    """The path as people write it: ``matrix.models[2].needs.vram``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part and not set(part) & set(".[]'\" ") and part.isprintable()
            text += ("." if text else "") + (part if plain else repr(part))
    return text
