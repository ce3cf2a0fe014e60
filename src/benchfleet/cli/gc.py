"""``benchfleet gc``: delete old attempts, logs and, where named, raw files; never a result."""

from __future__ import annotations

import argparse

from benchfleet.cli import options
from benchfleet.cli.archive import choose, tidy
from benchfleet.results.archive import Attic, Item


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet gc study.yaml --older-than 30d --larger-than 100MB --yes"
    choose(parser, example=example, usual="attempts,logs")


def main(arguments: argparse.Namespace) -> int:
    """Show what would be deleted, or delete it; 1 where something could not be."""
    bench, _ = options.opened(arguments)
    return tidy(arguments, bench, "delete", _delete)


def _delete(attic: Attic, item: Item) -> int:
    attic.delete(item)
    return 0
