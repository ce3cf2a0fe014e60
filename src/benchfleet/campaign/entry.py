"""A value of a campaign file with its place, and the mistakes found in such values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from benchfleet.domain import units
from benchfleet.domain.names import path_part
from benchfleet.domain.usage import Price
from benchfleet.errors import Mistake
from benchfleet.hints import hint

from .source import KeyPath, Source, dotted

T = TypeVar("T")
MAX_COUNT = 1_000_000  # no count in a campaign makes sense beyond


class Mistakes:
    """What is wrong in one file: each thing once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lines: dict[tuple[KeyPath, str], int | None] = {}
        for flaw in source.flaws:
            self._lines[flaw.path, flaw.message] = flaw.line or source.line(flaw.path)

    def add(self, path: KeyPath, message: str, *, at: KeyPath | None = None) -> None:
        """Note a mistake under the key `path`; `at` is whose line is shown, where another's."""
        self._lines.setdefault((path, message), self._source.line(path if at is None else at))

    def line(self, path: KeyPath) -> int | None:
        """The line of what stands at `path`."""
        return self._source.line(path)

    def within(self, path: KeyPath) -> bool:
        """Whether something at `path` or inside it is wrong."""
        return any(wrong_path[: len(path)] == path for wrong_path, _ in self._lines)

    def listed(self) -> list[Mistake]:
        """All of them, by line."""
        mistakes = [
            Mistake(key=dotted(path), message=message, line=line)
            for (path, message), line in self._lines.items()
        ]
        return sorted(mistakes, key=lambda mistake: mistake.line or 0)


@dataclass(frozen=True)
class Entry:
    """A value and its place. What reads it wrongly typed notes a mistake and gives the default,
    so that one reading finds all mistakes; an absent value and null both mean the default."""

    value: Any
    path: KeyPath
    mistakes: Mistakes

    @property
    def right(self) -> bool:
        """Whether nothing in it was found wrong yet."""
        return not self.mistakes.within(self.path)

    @property
    def absent(self) -> bool:
        return self.value is None

    @property
    def line(self) -> int | None:
        return self.mistakes.line(self.path)

    def wrong(self, message: str, *, at: Entry | None = None) -> None:
        """Note a mistake here; `at` is whose line is shown, where another's."""
        self.mistakes.add(self.path, message, at=at.path if at else None)

    def like(self, value: Any) -> Entry:
        """Another value in the same place: what a short form stands for."""
        return Entry(value, self.path, self.mistakes)

    def inside(self, key: str | int) -> Entry:
        """What stands under `key`; absent where there is nothing."""
        is_container = isinstance(self.value, (dict, list))
        value = (
            self.value[key]
            if is_container and (isinstance(key, int) or key in self.value)
            else None
        )
        return Entry(value, (*self.path, key), self.mistakes)

    def fields(
        self, known_keys: Collection[str], *, elsewhere: Mapping[str, str] = {}
    ) -> dict[str, Entry]:
        """Every known key with what stands under it; any other key is a mistake. `elsewhere` says
        where misplaced keys belong."""
        some = ", ".join([*known_keys][:3]) + (", …" if len(known_keys) > 3 else "")
        for key, entry in self.pairs(f"a mapping of {some}"):
            if key not in known_keys:
                belongs = f"it belongs in '{elsewhere[key]}'" if key in elsewhere else ""
                entry.wrong(f"no key {key!r} here; {belongs or hint(key, known_keys)}")
        return {key: self.inside(key) for key in known_keys}

    def pairs(self, expected: str) -> list[tuple[str, Entry]]:
        """The keys of a mapping, each with what stands under it."""
        if isinstance(self.value, dict):
            return [(key, self.inside(key)) for key in self.value]
        if not self.absent:
            self.wrong(f"must be {expected}, not {format_value(self.value)}")
        return []

    def items(self, *, single: bool = False) -> list[Entry]:
        """The items of a list; where a `single` one may stand for itself, that one."""
        if isinstance(self.value, list):
            items = [self.inside(index) for index in range(len(self.value))]
            for item in items:
                if item.absent:
                    item.wrong("is empty; write something there, or remove it")
            return items
        if single and not self.absent:
            return [self]
        if not self.absent:
            self.wrong(f"must be a list, not {format_value(self.value)}; write [ ] around it")
        return []

    def text(self, default: str = "") -> str:
        if isinstance(self.value, str):
            return self.value
        return self._otherwise(default, "text", quote=not isinstance(self.value, (dict, list)))

    def name(self) -> str:
        """Text that can be a folder's name; ``""`` with a mistake where it cannot."""
        text = self.text()
        if isinstance(self.value, str):
            try:
                path_part(text)
            except ValueError as error:
                self.wrong(str(error))
                return ""
        return text

    def label(self) -> str:
        """A name that may be written as a whole number, such as a length."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return str(self.value)
        return self.text()

    def whole(self, default: int, *, least: int = 1, most: int = MAX_COUNT) -> int:
        value = self.value
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        over = isinstance(value, (int, float)) and value > most
        return self._otherwise(
            default, f"at most {most}" if over else f"a whole number, {least} or more"
        )

    def slots(self, auto: int) -> int:
        """How many slots; `auto` where that is to be found out."""
        value = self.value
        if value == "auto":
            return auto
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT:
            return value
        return self._otherwise(auto, "a whole number, 1 or more, or auto")

    def truth(self, default: bool) -> bool:
        if isinstance(self.value, bool):
            return self.value
        return self._otherwise(default, "true or false")

    def kwargs(self) -> dict[str, Any]:
        """A mapping passed on as it stands."""
        return {key: entry.value for key, entry in self.pairs("a mapping of names to values")}

    def size(self, default: int = 0) -> int:
        """Bytes."""
        return self._parsed(units.size, default)

    def duration(self, default: float | None) -> float | None:
        """Seconds."""
        return self._parsed(units.duration, default)

    def share(self, default: float) -> float:
        """From 0 to 1, also written as a percentage."""
        return self._parsed(units.share, default)

    def price(self) -> Price | None:
        """What an hour costs; None by default."""
        return self._parsed(units.price, None)

    def money(self) -> tuple[float, str] | None:
        """An amount and its currency; None by default."""
        return self._parsed(units.money, None)

    def _parsed(self, parse: Callable[[Any], T], default: T) -> T:
        if self.absent:
            return default
        try:
            return parse(self.value)
        except ValueError as error:
            self.wrong(str(error))
            return default

    def _otherwise(self, default: T, expected: str, *, quote: bool = False) -> T:
        if not self.absent:
            advice = "; put it in quotes" if quote else ""
            self.wrong(f"must be {expected}, not {format_value(self.value)}{advice}")
        return default


def format_value(value: Any) -> str:
    """The value as a message shows it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
