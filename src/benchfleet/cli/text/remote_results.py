"""Text about results that are not in this folder."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable

from benchfleet.cli.shared import next_command
from benchfleet.domain.humanize import counted


def elsewhere_lines(
    arguments: argparse.Namespace, stores: Iterable[str], template: str
) -> list[str]:
    """A line on results that are elsewhere; `template` contains ``{results}``, their count."""
    store_names = list(stores)
    if not store_names:
        return []
    message = template.format(results=counted(len(store_names), "result"))
    merge = next_command.same_choice(arguments, "merge")
    return [f"{message} ({counted_stores(store_names)}); fetch them: {merge}"]


def counted_stores(stores: Iterable[str]) -> str:
    """``2 at lab1, 1 at s3://bucket``"""
    return ", ".join(f"{count} at {store}" for store, count in sorted(Counter(stores).items()))
