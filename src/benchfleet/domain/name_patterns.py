"""Names and globs that choose by name; ``!`` in front of one excludes what it matches."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


def matches(patterns: Sequence[str], *names: str) -> bool:
    """Whether patterns choose what bears these names: one that is not negated matches one of them
    (or there is none), and no negated one does."""
    plain = [p for p in patterns if not p.startswith("!")]
    excluded = [p[1:] for p in patterns if p.startswith("!")]
    included = not plain or any(_matches(p, name) for p in plain for name in names)
    return included and not any(_matches(p, name) for p in excluded for name in names)


def _matches(pattern: str, name: str) -> bool:
    """By name first: a name may hold the letters that a glob reads otherwise."""
    return pattern == name or fnmatchcase(name, pattern)
