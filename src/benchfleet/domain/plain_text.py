"""Text of unknown origin, made fit to be shown: in one line, and in Markdown."""

from __future__ import annotations

import html
import re
import unicodedata

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode categories that may mislead
# a _ within a word means nothing
_SPECIAL = re.compile(r"([\\`*\[\]|~#!$])|(?<![^\W_])_|_(?![^\W_])")


def one_line(text: str, most: int | None = None) -> str:
    """Text of unknown origin in one line of at most `most` characters, fit to be shown.

    Control characters, bidirectional marks, lone surrogates and their like become escapes.
    """
    line = " ".join(text.split())
    if most is not None and len(line) > most:
        line = line[: most - 1].rstrip() + "…"
    if line.isprintable():  # as nearly all are
        return line
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if unicodedata.category(char) in _INVISIBLE
        else char
        for char in line
    )


def markdown_text(text: str) -> str:
    """Text of unknown origin as Markdown that shows it and means nothing else."""
    line = html.escape(one_line(text), quote=False)
    return _SPECIAL.sub(lambda match: f"\\{match.group()}", line).replace("://", ":&#47;/")
