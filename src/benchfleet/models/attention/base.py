"""The attention contract: which keys each query of a layer may look at.

A config is a frozen dataclass, its fields are its parameters, the first of them the main one.
Its name, version and parameters enter the identity of a cell.
One method does the work: `keep` returns which of the keys that a layer's queries see are kept.
Steps run in order and add up: each sees in `View.selected` what the steps before it kept, and
cannot drop any. Keys that are not visible are dropped from its answer. A query for which no step
keeps a key keeps its own.

Positions count by rank among the keys that a query sees, never by column: padding on the left,
and padding between context and question, shift nothing.

Importing a config's module imports nothing heavy: torch belongs inside `keep`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from benchfleet.hints import hint
from benchfleet.registry import Plugin

if TYPE_CHECKING:
    from torch import Tensor

Size = int | float  # a number of keys, or a fraction (float, 0 to 1) of those seen
Count = TypeVar("Count", int, "Tensor")
Parsed = TypeVar("Parsed", bound="AttentionConfig")


@dataclass(frozen=True, kw_only=True)
class View:
    """What one layer's queries see, and what earlier steps kept of it."""

    query: Tensor  # [batch, heads, queries, dim]
    key: Tensor  # [batch, key heads, keys, dim]; heads is a multiple of key heads
    visible: Tensor  # bool [batch, 1 or heads, queries, keys]: causal, and no padding
    selected: Tensor  # bool [batch, 1 or heads, queries, keys], never beyond `visible`
    scaling: float  # of query · key before the softmax

    @cached_property
    def rank(self) -> Tensor:
        """The position of each visible key among those its query sees, 1 for the first; `visible`'s
        shape."""
        return self.visible.cumsum(-1)

    @cached_property
    def seen(self) -> Tensor:
        """How many keys each query sees: [batch, 1 or heads, queries, 1]."""
        return self.visible.sum(-1, keepdim=True)

    def count(self, size: Size) -> Tensor:
        """`size` as a number of keys for each query, shaped as `seen`."""
        whole = isinstance(size, int)
        return self.seen.clamp(max=self.most(size)) if whole else fraction_of(size, self.seen)

    def most(self, size: Size) -> int:
        """A number of keys that `count` exceeds for no query, known without asking the device."""
        keys = int(self.key.shape[-2])
        return min(size, keys) if isinstance(size, int) else fraction_of(size, keys)


class AttentionConfig(Plugin, ABC):
    """One attention config by name; see the module for the whole contract."""

    version: ClassVar[int] = 1  # raised when the same parameters keep other keys
    samples: ClassVar[bool] = False  # it draws keys at random: one of these in a composition

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

    @abstractmethod
    def keep(self, view: View) -> Tensor:
        """The keys that this step adds: bool, [batch, heads, queries, keys] or broadcast to it."""


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


def fraction_of(size: float, of: Count) -> Count:
    """The fraction `size` of a number of keys, rounded up.

    The decimal that was written counts: 0.1 of 30 keys is 3, which floating point makes 4.
    """
    ratio = Fraction(str(size)).limit_denominator(10**12)
    return -(of * -ratio.numerator // ratio.denominator)


def _no_parameter(name: str, known_fields: list[str]) -> str:
    if not known_fields:
        return f"takes no parameter; remove {name!r}"
    return f"no parameter {name!r}; {hint(name, known_fields)}"
