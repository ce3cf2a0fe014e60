"""The attention contract: which keys each query of a layer may look at.

A config is a frozen dataclass, its fields are its parameters, the first of them the main one.
Its name, version and parameters enter the identity of a cell.
One method does the work: `keep` returns which of the keys that a layer's queries see are kept.
Steps run in order and add up: each sees in `View.selected` what the steps before it kept, and
cannot drop any. Keys that are not visible are dropped from its answer. A query for which no step
keeps a key keeps its own. A kept key has weight 1, or as many keys as it stands for: a step that
samples keys gives each the inverse of its probability, and the logarithm of the weight is added to
the key's score.

What a step derives from all keys, such as bounds of pages, lies in a `State` of each layer. It
follows the key-value cache and is extended before `keep` is called.

Positions count by rank among the keys that a query sees, never by column: padding on the left,
and padding between context and question, shift nothing.

Importing a config's module imports nothing heavy: torch belongs inside `keep`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from benchfleet.hints import hint
from benchfleet.models.attention.files import digest_of_file
from benchfleet.models.attention.selection import Picks
from benchfleet.models.attention.state import Shape, State
from benchfleet.models.attention.view import View
from benchfleet.registry import Plugin

if TYPE_CHECKING:
    from torch import Tensor

Parsed = TypeVar("Parsed", bound="AttentionConfig")


class AttentionConfig(Plugin, ABC):
    """One attention config by name; see the module for the whole contract."""

    version: ClassVar[int] = 1  # raised when the same parameters keep other keys
    samples: ClassVar[bool] = False  # it draws keys at random: one of these in a composition
    has_fast_form: ClassVar[bool] = False  # `span` or picks: what mode `fast` runs
    dense_layers: tuple[int, ...] = ()  # layers that stay dense
    question: str = "sparse"  # "dense": only single tokens are sparse

    @classmethod
    def parse(cls: type[Parsed], value: Any) -> Parsed:
        """From what a campaign file says: a bare value for the main parameter, or a mapping.

        Raises ValueError with what to do.
        """
        known_fields = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
        if isinstance(value, Mapping):
            values = dict(value)
        elif value is None:
            values = {}
        elif not known_fields:
            raise ValueError(f"takes no parameter; write null, not {value!r}")
        else:
            values = {next(iter(known_fields)): value}
        for name in values:
            if name not in known_fields:
                raise ValueError(_no_parameter(str(name), list(known_fields)))
        for name, field in known_fields.items():
            if name not in values and field.default is MISSING:
                hint = _SIZES if field.type == "Size" else "give it a value"
                raise ValueError(f"{name} is missing; {hint}")
        return cls(**values)

    def params(self) -> dict[str, Any]:
        """Every parameter with its value, defaults filled in: this enters a cell's identity."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def files(self) -> Mapping[str, Path]:
        """The files that it reads, by parameter. Their content enters a cell's identity, and their
        paths do not."""
        return {}

    def within(self: Parsed, folder: Path) -> Parsed:
        """The same config with relative paths of its files taken from `folder`."""
        paths = {name: str(folder / path.expanduser()) for name, path in self.files().items()}
        return replace(self, **paths) if paths else self  # type: ignore[type-var]

    def digests(self) -> dict[str, str]:
        """The digest of each file by parameter. Raises OSError."""
        return {name: digest_of_file(path) for name, path in self.files().items()}

    def span(self, seen: int) -> tuple[int, int] | None:
        """How many of the first and of the last of `seen` keys a query keeps, where that is all
        that it keeps; else None."""
        return None

    def new_state(self, shape: Shape) -> State | None:
        """A state for one layer, which then comes in `View.state`; None where it needs none."""
        return None

    @abstractmethod
    def keep(self, view: View) -> Tensor | Picks:
        """The keys that this step adds: a mask (bool), weights (float32, 0 where not kept), both
        [batch, heads, queries, keys] or broadcast to it, or picks by index."""


def check_common(config: Any) -> None:
    """Check those of a config's parameters that others share. Raises ValueError."""
    for name in {field.name for field in fields(config)} & _COMMON.keys():
        _COMMON[name](name, getattr(config, name))
    object.__setattr__(config, "dense_layers", tuple(sorted(set(_listed(config.dense_layers)))))


def check_layers(name: str, layers: Any) -> None:
    """Raise ValueError unless these are numbers of layers."""
    for each in _listed(layers):
        if isinstance(each, bool) or not isinstance(each, int) or each < 0:
            raise ValueError(f"{name} may not be {layers!r}; list layers from 0 up")


def _listed(layers: Any) -> Sequence[Any]:
    return layers if isinstance(layers, (list, tuple)) else [layers]


def check_choice(name: str, value: Any, *choices: str) -> None:
    """Raise ValueError unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} may not be {value!r}; use {' or '.join(choices)}")


def check_number(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise ValueError unless `value` is a whole number from `least` to `most`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        to = "up" if most is None else f"to {most}"
        raise ValueError(f"{name} may not be {value!r}; use a whole number from {least} {to}")


def check_fraction(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a fraction above 0, up to 1."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= 1:
        raise ValueError(f"{name} may not be {value!r}; use a fraction above 0, up to 1")


_SIZES = "give a number of keys such as 64, or a fraction of them such as 0.1"


def check_size(name: str, size: Any) -> None:
    """Raise ValueError unless `size` is a number of keys or a fraction of them."""
    whole = isinstance(size, int) and not isinstance(size, bool)
    if not whole and not isinstance(size, float):
        raise ValueError(f"{name} may not be {size!r}; {_SIZES}")
    if size < 0:
        raise ValueError(f"{name} may not be negative, as {size!r} is; {_SIZES}")
    if not whole and not size <= 1:
        raise ValueError(f"{name} may not be {size!r}, as a fraction is from 0 to 1; {_SIZES}")


_COMMON: Mapping[str, Callable[[str, Any], None]] = {
    "heavy_size": check_size,
    "label_bits": lambda name, value: check_number(name, value, 1, 16),
    "share": lambda name, value: check_choice(name, value, "head", "group"),
    "question": lambda name, value: check_choice(name, value, "sparse", "dense"),
    "dense_layers": check_layers,
    "seed": lambda name, value: check_number(name, value, 0),
}


def _no_parameter(name: str, known_fields: list[str]) -> str:
    if not known_fields:
        return f"takes no parameter; remove {name!r}"
    return f"no parameter {name!r}; {hint(name, known_fields)}"
