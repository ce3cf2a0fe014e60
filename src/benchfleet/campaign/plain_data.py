"""Values of TOML and Python brought to the plain data that campaigns are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, time
from enum import Enum
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any

from benchfleet.errors import PluginError
from benchfleet.registry import load, names

from .source import Bounds, Flaw, KeyPath

_LARGEST = 10**30
_BY_NAME = {("torch", "dtype"), ("torch", "device")}


def to_plain_data(value: Any) -> tuple[Any, list[Flaw]]:
    """The value as mappings with text keys, lists, text, finite numbers, truth and None.

    What has a name stands for it: a member of an enum for its value, a dtype or device of torch,
    a path, an attention config for ``{name: parameters}``. Anything else is a flaw, and None in
    its place. Raises TooMuch for what is nested without end.
    """
    walk = _Walk()
    return walk.value(value, (), 0), walk.flaws


class _Walk:
    """One walk over a value."""

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []
        self._bounds = Bounds()

    def value(self, value: Any, path: KeyPath, depth: int) -> Any:
        self._bounds.count(depth)
        if isinstance(value, Enum):
            return self.value(value.value, path, depth + 1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (str, PurePath)):
            return self._text(str(value), path)
        if isinstance(value, Real):
            return self._number(value, path)
        if isinstance(value, Mapping):
            return self._mapping(value, path, depth)
        if isinstance(value, (list, tuple, range)):
            return [self.value(item, (*path, n), depth + 1) for n, item in enumerate(value)]
        if (type(value).__module__, type(value).__name__) in _BY_NAME:
            return str(value).removeprefix("torch.")
        if (step := _attention_step(value)) is not None:
            return self.value(step, path, depth + 1)
        self._wrong(path, _refusal(value))
        return None

    def _mapping(self, value: Mapping[Any, Any], path: KeyPath, depth: int) -> dict[str, Any]:
        plain = {}
        for key, item in value.items():
            name = key.value if isinstance(key, Enum) else key
            if isinstance(name, str):
                plain[str(name)] = self.value(item, (*path, str(name)), depth + 1)
            else:
                self._wrong(path, f"a key must be text, not {name!r}")
        return plain

    def _text(self, text: str, path: KeyPath) -> str | None:
        with suppress(UnicodeEncodeError):
            text.encode()
            if "\0" not in text:
                return text
        self._wrong(path, f"{text[:40]!r} is not text that results can store")
        return None

    def _number(self, value: Real, path: KeyPath) -> int | float | None:
        if isinstance(value, Integral):
            if -_LARGEST < (whole := int(value)) < _LARGEST:
                return whole
        elif math.isfinite(number := float(value)):
            return number
        self._wrong(path, "is infinite, no number, or beyond 10**30; results cannot keep it")
        return None

    def _wrong(self, path: KeyPath, message: str) -> None:
        self.flaws.append(Flaw(message=message, path=path))


def _attention_step(value: Any) -> dict[str, Any] | None:
    """What a campaign writes for an attention config; None where the value is none."""
    for name in names("attention"):
        # A class that cannot be had here has no instance here.
        with suppress(PluginError, ImportError, AttributeError):
            if type(value) is load("attention", name):
                return {name: value.params()}
    return None


def _refusal(value: Any) -> str:
    if isinstance(value, (date, time)):
        return f"{value.isoformat()} is a date or a time, not text; put it in quotes"
    if isinstance(value, (set, frozenset)):
        return "a set has no order; write a list"
    return (
        f"is of type {type(value).__qualname__}, no plain data; write text, a number, true or"
        " false, a list or a mapping"
    )
