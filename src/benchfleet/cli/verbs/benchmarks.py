"""``benchfleet benchmarks``: the benchmarks that a campaign may name."""

from __future__ import annotations

import argparse
import os

from benchfleet import registry
from benchfleet.cli.shared.plugin_list import Entry, entry_of, print_entries


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = "example: benchfleet benchmarks"
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """List the benchmarks with their subsets, packages and data sets."""
    entries = [_entry(registry.info("benchmarks", name)) for name in registry.names("benchmarks")]
    return print_entries(entries, as_json=arguments.json)


def _entry(info: registry.PluginInfo) -> Entry:
    if info.problem:
        return entry_of(info)
    if info.plugin.example:  # its parameters are required
        return entry_of(info)
    benchmark = info.plugin({})
    first = next(iter(benchmark.subsets()), None)  # all subsets read the same repositories
    data = {one.title: one.is_here(os.environ) for one in benchmark.downloads(first)}
    subsets = ", ".join(benchmark.subsets()[:2])
    example = f"{info.name}: [{subsets}]" if subsets else info.name
    return entry_of(info, example=f"- {example}", data=data or None)
