"""Reading TOML into plain data with lines."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

from .plain_data import to_plain_data
from .source import TOO_DEEP, Flaw, KeyPath, Source, TooMuch

_ERROR_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_TOKEN = re.compile(
    r"""
      (?P<space>(?:[ \t\r]|\#[^\n]*)+)
    | (?P<text>\"{3}(?:\\.|[^\\])*?\"{3}(?!\") | '{3}.*?'{3}(?!') | "(?:\\.|[^"\\])*" | '[^']*')
    | (?P<mark>[\[\]{}=,.\n])
    | (?P<bare>[^\s\[\]{}=,.\#"']+)
    """,
    re.VERBOSE | re.DOTALL,
)


def read_toml(text: str) -> Source:
    """The document in `text`; what is wrong with it is in the source's flaws."""
    try:
        data, flaws = to_plain_data(_toml().loads(text))
    except (RecursionError, TooMuch):
        return Source(flaws=(Flaw(message=TOO_DEEP),))
    except ValueError as error:
        return Source(flaws=(_flaw(str(error), text),))
    return Source(data=data, lines=_Lines(text).lines, flaws=tuple(flaws))


def _toml() -> Any:
    return import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def _flaw(problem: str, text: str) -> Flaw:
    """The parser's error in words that say what to do, where it is one that people often meet."""
    position = _ERROR_POSITION.search(problem)
    line = None
    if position:
        line = int(position[1]) if position[1] else len(text.rstrip().splitlines()) or 1
        problem = problem[: position.start()]
    if problem == "Cannot overwrite a value" or problem.startswith("Cannot declare"):
        problem = "what begins here stands above already; remove one"
    elif problem == "Invalid value":
        problem = "no value stands here; text wants quotes, and nothing is written {}"
    return Flaw(message=f"is not TOML: {problem[:1].lower()}{problem[1:]}", line=line)


class _Lines:
    """The line of every table, key and item of a document that the parser has taken."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._tables: dict[KeyPath, int] = {}  # tables so far of each [[array]] of them
        self._tokens: list[tuple[str, str, int]] = []  # kind, text, line
        self._next, line = 0, 1
        for match in _TOKEN.finditer(text.replace("\r\n", "\n")):
            if match.lastgroup != "space":
                self._tokens.append((match.lastgroup or "", match[0], line))
            line += match[0].count("\n")
        self._document()

    def _document(self) -> None:
        table: KeyPath = ()
        self.lines[table] = 1
        while self._skip_line_ends():
            if self._take_mark("["):
                table = self._header(listed=self._take_mark("["))
            else:
                self._pair(table)

    def _header(self, *, listed: bool) -> KeyPath:
        line, keys = self._key()
        path: KeyPath = ()
        for index, key in enumerate(keys):
            path = (*path, key)
            self.lines.setdefault(path, line)
            if listed and index == len(keys) - 1:
                self._tables[path] = self._tables.get(path, 0) + 1
            if path in self._tables:
                path = (*path, self._tables[path] - 1)
                self.lines.setdefault(path, line)
        while self._take_mark("]"):
            pass
        return path

    def _pair(self, table: KeyPath) -> None:
        line, keys = self._key()
        for key in keys:
            table = (*table, key)
            self.lines.setdefault(table, line)
        self._take_mark("=")
        self._value(table)

    def _key(self) -> tuple[int, list[str]]:
        """The line and the parts of a key, and what ends it still to come."""
        line, keys = self._tokens[self._next][2], []
        while self._kind() in ("bare", "text"):
            kind, text, _ = self._tokens[self._next]
            keys.append(text if kind == "bare" else next(iter(_toml().loads(f"{text} = 0"))))
            self._next += 1
            self._take_mark(".")
        return line, keys

    def _value(self, path: KeyPath) -> None:
        if self._take_mark("["):
            index = 0
            while self._skip_line_ends() and not self._take_mark("]"):
                item = (*path, index)
                self.lines[item] = self._tokens[self._next][2]
                self._value(item)
                self._skip_line_ends()
                self._take_mark(",")
                index += 1
        elif self._take_mark("{"):
            while self._skip_line_ends() and not self._take_mark("}"):
                self._pair(path)
                self._skip_line_ends()
                self._take_mark(",")
        else:
            while self._kind() in ("bare", "text") or self._take_mark("."):
                self._next += self._kind() in ("bare", "text")

    def _kind(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _take_mark(self, mark: str) -> bool:
        """Step over the mark if it is next."""
        is_next = self._kind() == "mark" and self._tokens[self._next][1] == mark
        self._next += is_next
        return is_next

    def _skip_line_ends(self) -> bool:
        """Whether anything comes after the line ends that are next."""
        while self._take_mark("\n"):
            pass
        return self._next < len(self._tokens)
