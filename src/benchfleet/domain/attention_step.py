"""One step of a composition of attention configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Kwargs = Mapping[str, Any]  # JSON values only


@dataclass(frozen=True, kw_only=True)
class AttentionStep:
    """One attention config in an ordered composition: its registry name and parameters."""

    name: str
    params: Kwargs = field(default_factory=dict)
    version: int | None = None  # None: the cell is older than versions of attention configs
    digests: Mapping[str, str] = field(default_factory=dict)  # of files, by the parameter's name

    def identity(self) -> list[Any]:
        """Name, parameters, with the content of a file in place of its path, and version."""
        return [self.name, {**self.params, **self.digests}, *self._versions()]

    def to_list(self) -> list[Any]:
        """What `from_list` reads: name, parameters, version and digests where there are some."""
        digests = [dict(self.digests)] if self.digests else []
        return [self.name, dict(self.params), *self._versions(), *digests]

    def _versions(self) -> list[int]:
        return [] if self.version is None else [self.version]

    @classmethod
    def from_list(cls, value: Sequence[Any]) -> AttentionStep:
        name, params, *others = value
        versions = [other for other in others if isinstance(other, int)]
        digests = [other for other in others if isinstance(other, Mapping)]
        return cls(
            name=name,
            params=params,
            version=versions[0] if versions else None,
            digests=digests[0] if digests else {},
        )
