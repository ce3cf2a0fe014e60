"""Results that are not here, as commands tell of them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable

from benchfleet.cli.shared import options
from benchfleet.domain.humanize import counted


def elsewhere_lines(arguments: argparse.Namespace, places: Iterable[str], shown: str) -> list[str]:
    """How many results are elsewhere, as `shown` words it with ``{results}``, where they are, and
    how they come; nothing where none are."""
    seen = list(places)
    if not seen:
        return []
    said = shown.format(results=counted(len(seen), "result"))
    merge = options.same_choice(arguments, "merge")
    return [f"{said} ({counted_stores(seen)}); bring them here: {merge}"]


def counted_stores(places: Iterable[str]) -> str:
    """``2 at lab1, 1 at s3://bucket``"""
    return ", ".join(f"{count} at {place}" for place, count in sorted(Counter(places).items()))
