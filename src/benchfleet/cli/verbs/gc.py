"""``benchfleet gc``: delete old attempts, logs and, if named, raw files; never a result."""

from __future__ import annotations

import argparse

from benchfleet.cli.shared import options
from benchfleet.cli.verbs.archive import add_choice, clean


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet gc study.yaml --older-than 30d --larger-than 100MB --yes"
    add_choice(parser, example=example, kinds="attempts,logs")


def main(arguments: argparse.Namespace) -> int:
    """Show what would be deleted, or delete it; 1 if something could not be."""
    study, _ = options.opened(arguments)
    return clean(arguments, study, "delete", lambda archive, item: archive.delete(item))
