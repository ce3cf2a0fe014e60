"""Moments, hostile text and paths as a terminal should show them, and whether it draws again."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from pathlib import Path
from typing import TextIO

_SEQUENCES = re.compile(  # colours and the like, and titles or links
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
)
_LINE_ENDS = re.compile(r"\s*[\r\n]\s*")


def printable(text: str) -> str:
    """The text in one line, without what could steer a terminal or be refused by its encoding."""
    if text.isprintable():
        return text
    text = _LINE_ENDS.sub(" ", _SEQUENCES.sub("", text))
    text_out = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text_out.encode("utf-8", "replace").decode()


def moment(at: float) -> str:
    """``14:02``, with the date where that is not today's; `at` in seconds since the epoch."""
    then, today = time.localtime(at), time.localtime()
    same = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if same else "%F %H:%M", then)


def columns(text: str) -> int:
    """How many columns of a terminal the text takes: names may be of wide characters."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def padded(text: str, width: int) -> str:
    """The text with as many blanks behind it as make so many columns."""
    return text + " " * (width - columns(text))


def display_path(path: Path) -> Path:
    """The path as seen from here, where it lies below."""
    cwd = Path.cwd()
    return path.relative_to(cwd) if path.is_relative_to(cwd) else path


def can_redraw(stream: TextIO) -> bool:
    """Whether it is a terminal that takes back what it shows: one in an editor (``TERM=dumb``)
    does not."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")
