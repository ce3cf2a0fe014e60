"""Results that are not here, as commands tell of them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable

from benchfleet.cli import options
from benchfleet.domain.words import counted


def told_elsewhere(arguments: argparse.Namespace, places: Iterable[str], shown: str) -> list[str]:
    """How many results are elsewhere, as `shown` words it with ``{results}``, where they are, and
    how they come; nothing where none are."""
    counts = Counter(places)
    if not counts:
        return []
    where = ", ".join(f"{count} at {place}" for place, count in sorted(counts.items()))
    said = shown.format(results=counted(counts.total(), "result"))
    return [f"{said} ({where}); bring them here: {options.same_choice(arguments, 'merge')}"]
