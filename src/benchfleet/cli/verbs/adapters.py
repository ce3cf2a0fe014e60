"""``benchfleet adapters``: the adapters that a campaign may name."""

from __future__ import annotations

import argparse

from benchfleet import registry
from benchfleet.cli.shared.plugin_list import entry_of, print_entries


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = "example: benchfleet adapters"
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """List the adapters with the packages and programs that they need."""
    entries = [entry_of(registry.info("models", name)) for name in registry.names("models")]
    return print_entries(entries, as_json=arguments.json)
