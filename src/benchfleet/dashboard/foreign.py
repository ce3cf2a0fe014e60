"""Foreign text made harmless: what models, scripts, hosts and file names may have put anywhere.

Templates escape all text. This module does the rest: control and bidirectional characters become
visible symbols, and a log's colours become classes. Links in logs are dropped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from markupsafe import Markup, escape

MAX_LINE_CHARACTERS = 4_000  # of one line of a log or an answer; the rest is counted
_LEAST_NAME = 12  # characters that a shortened name of a path has
_SAFE_CONTROLS = frozenset("\n\t")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # Unicode categories
_CONTROL_PICTURES = 0x2400  # Unicode's symbols of the control characters
_OSC = re.compile(r"\x1b\].*?(?:\x07|\x1b\\|$)", re.DOTALL)  # links and titles of terminals
_CSI = re.compile(r"\x1b\[([0-9;]*)m")  # colours
_OTHER_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def visible(text: object) -> str:
    """The text with each control, bidirectional or otherwise invisible character as a symbol;
    lines and tabs stay."""
    text = str(text)
    if text.isprintable():  # no character of these categories, and quick
        return text
    return "".join(map(_visible_character, text))


def one_line(text: object, most: int = 300) -> str:
    """The text in one line of at most `most` characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _visible_character(character: str) -> str:
    if (character.isascii() and character.isprintable()) or character in _SAFE_CONTROLS:
        return character
    if unicodedata.category(character) not in _INVISIBLE:
        return character
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def short_path(text: object, most: int) -> Markup:
    """A path as `breakable`, whose longest names lack their middle where it has over `most`
    characters: its end says which cell it is."""
    names = one_line(text, 2_000).split("/")
    while (over := len("/".join(names)) - most) > 0:
        at = max(range(len(names)), key=lambda number: len(names[number]))
        size = max(_LEAST_NAME, len(names[at]) - over)
        if size >= len(names[at]):
            break
        names[at] = f"{names[at][: size // 2]}…{names[at][size // 2 - size + 1 :]}"
    return breakable("/".join(names), 2_000)


def breakable(text: object, most: int = 300) -> Markup:
    """A path or a name in HTML, which may wrap behind its slashes and underscores."""
    parts = re.split("(?<=[/_])", one_line(text, most))
    return Markup("<wbr>").join(part for part in parts if part)


def log_html(line: str) -> Markup:
    """A line of a log as HTML: escaped, with its colours as classes and nothing that acts."""
    parts: list[Markup] = []
    for classes, text in _coloured(line):
        if len(text) > MAX_LINE_CHARACTERS:
            more = len(text) - MAX_LINE_CHARACTERS
            text = f"{text[:MAX_LINE_CHARACTERS]}… ({more} more characters)"
        safe = escape(visible(text))
        parts.append(
            Markup('<span class="{}">{}</span>').format(classes, safe) if classes else safe
        )
    return Markup("").join(parts)


def _coloured(line: str) -> Iterator[tuple[str, str]]:
    """The parts of a line with the classes of their colours."""
    line = _OSC.sub("", line)
    position, style = 0, ""
    for match in _CSI.finditer(line):
        if text := _OTHER_ESCAPES.sub("", line[position : match.start()]):
            yield style, text
        style, position = _style(style, match[1]), match.end()
    if text := _OTHER_ESCAPES.sub("", line[position:]):
        yield style, text


def _style(before: str, codes: str) -> str:
    """The classes after a colour sequence; what is not one of the sixteen colours is ignored."""
    classes = before.split()
    for code in codes.split(";"):
        number = int(code) if code.isdecimal() and len(code) < 4 else 0
        if number == 0:
            classes = []
        elif number == 1:
            classes.append("ansi-bold")
        elif 30 <= number <= 37 or 90 <= number <= 97:
            bold = [one for one in classes if one == "ansi-bold"]
            classes = [*bold, f"ansi-{_COLOURS[number % 10]}"]
    return " ".join(dict.fromkeys(classes))


def json_safe(value: Any) -> Any:
    """JSON values with all text made visible; keys too."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): json_safe(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(one) for one in value]
    return value
