"""Something that cells read and that comes over the network: a model, a data set or a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from typing import Any, ClassVar


class Download(ABC):
    """One of them. Subclasses are frozen dataclasses of JSON values, and print as their names."""

    kind: ClassVar[str]  # model, data set or file

    @abstractmethod
    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Whether this host has it, as far as can be known without the network."""

    @abstractmethod
    def fetch(self, environ: Mapping[str, str]) -> None:
        """Bring it to this host, once for all processes; a fetch that broke off continues.

        Raises CellFailure, ValueError or OSError if it cannot be had.
        """

    @property
    def title(self) -> str:
        """Its name in lists, where all parts of one repository are one."""
        return str(self)

    def size(self, environ: Mapping[str, str]) -> int | None:
        """The bytes of all that its title names, or None if unknown. May ask the network for a
        second or two."""
        return None

    def received(self, environ: Mapping[str, str]) -> int:
        """The bytes that are here already, finished or not; 0 if unknown."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its class."""
        kind = type(self)
        values = asdict(self)  # type: ignore[call-overload]
        return {"class": f"{kind.__module__}:{kind.__qualname__}", **values}


def from_dict(value: Mapping[str, Any]) -> Download:
    """What `to_dict` wrote. Raises ValueError for a class that is no download."""
    values = dict(value)
    module, _, name = values.pop("class").partition(":")
    kind = getattr(import_module(module), name)
    if not issubclass(kind, Download):
        raise ValueError(f"{module}:{name} is no download; use the same release on all hosts")
    loaded = kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    assert isinstance(loaded, Download)  # noqa: S101 - for the type alone
    return loaded
