"""Durations, hostile text and paths as a terminal should show them, and whether it draws again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO


def printable(text: str) -> str:
    """The text without what could steer a terminal or be refused by its encoding."""
    if text.isprintable():
        return text
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown.encode("utf-8", "replace").decode()


def shown_path(path: Path) -> Path:
    """The path as seen from here, where it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def can_redraw(stream: TextIO) -> bool:
    """Whether it is a terminal that takes back what it shows: one in an editor (``TERM=dumb``)
    does not."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")
