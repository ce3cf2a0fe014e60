"""Checking the parameters that a campaign file hands to a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchfleet.domain.units import duration
from benchfleet.hints import hint


def with_defaults(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """`defaults`, overridden by `params`. Raises ValueError for a name that has no default."""
    for name in params:
        if name not in defaults:
            instead = (
                hint(str(name), defaults) if defaults else "this benchmark takes none; remove it"
            )
            raise ValueError(f"no parameter {name!r}; {instead}")
    return {**defaults, **params}


def whole_number(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """`value` where it is a whole number within its limits, or ValueError."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if fits and (most is None or value <= most):
        return int(value)
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ValueError(f"{name} must be a whole number {bounds}, not {value!r}")


def fractions(name: str, value: Any) -> list[float]:
    """`value` where it is a list of different numbers from 0 to 1, or ValueError."""
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(
            f"{name} must be a list of numbers, such as [0.1, 0.5, 0.9], not {value!r}"
        )
    for item in value:
        if isinstance(item, bool) or not isinstance(item, (int, float)) or not 0 <= item <= 1:
            raise ValueError(f"each of {name} must be a number from 0 to 1, not {item!r}")
    if len(set(value)) < len(value):
        raise ValueError(f"each of {name} must differ from the others; {value!r} repeats one")
    return [float(item) for item in value]


def text(name: str, value: Any) -> str:
    """`value` where it is text that is not empty, or ValueError."""
    if value is None:
        raise ValueError(f"{name} is missing")
    if isinstance(value, str) and value and "\0" not in value:
        return value
    raise ValueError(f"{name} must be text, not {value!r}")


def optional_text(name: str, value: Any) -> str | None:
    """None as it is, and otherwise text that is not empty, or ValueError."""
    return None if value is None else text(name, value)


def texts(name: str, value: Any) -> list[str]:
    """`value` where it is a list of texts; numbers among them become text. Or ValueError."""
    if value is None:
        raise ValueError(f"{name} is missing")
    if isinstance(value, str):
        raise ValueError(f"{name} must be a list; write [{', '.join(value.split())}]")
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} must be a list, not {value!r}; write [ ] around it")
    return [text_or_number(f"each of {name}", item) for item in value]


def text_or_number(name: str, value: Any) -> str:
    """`value` as text where it is text or a number, or ValueError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and "\0" not in value:
        return value
    raise ValueError(f"{name} must be text or a number, not {value!r}; put it in quotes")


def seconds(name: str, value: Any) -> float:
    """Seconds of ``90s``, ``10m`` or ``1h30m``, or ValueError."""
    try:
        return duration(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
