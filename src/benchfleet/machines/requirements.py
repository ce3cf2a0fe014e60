"""What benchfleet needs beside itself: its requirements, and the versions that are installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution

from benchfleet.domain.host import EXTRAS
from benchfleet.machines.wheel import PACKAGE, installed

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def requirements(*extras: str) -> list[str]:
    """What pip is asked for, beside benchfleet itself; with extras, what these add too."""
    lines = dict[str, None]()  # in their order, each once
    for line in installed().requires or ():
        named = _EXTRA.search(line)
        if named is None or named[1] in extras:
            requirement, _, marker = (part.strip() for part in line.partition(";"))
            marker = re.sub(r"\s+and\s*$|^\s*and\s+", "", _EXTRA.sub("", marker)).strip(" ()")
            lines[f"{requirement}; {marker}" if marker else requirement] = None
    return list(lines)


def constraints() -> str:
    """The versions that a host should have: those of the checkout that runs, or those installed.

    A build's own part (``2.13.0+cpu``) is left out: another machine wants another build.
    """
    checkout = PACKAGE.parents[1]
    if (checkout / "pyproject.toml").is_file() and (checkout / "constraints.txt").is_file():
        return (checkout / "constraints.txt").read_text("utf-8")
    lines = requirements(*EXTRAS)
    pins = [f"{name}=={version.partition('+')[0]}\n" for name, version in _installed(lines, set())]
    return "".join(sorted(pins))


def _installed(lines: Iterable[str], seen: set[str]) -> Iterator[tuple[str, str]]:
    """Name and version of each package wanted that is here, and of those that it needs."""
    for line in lines:
        match = _NAME.match(line)
        name = re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""
        if not name or name in seen:
            continue
        seen.add(name)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        yield name, package.version
        yield from _installed(
            [one for one in package.requires or () if not _EXTRA.search(one)], seen
        )
