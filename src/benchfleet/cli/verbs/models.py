"""``benchfleet models``: the models in the Hugging Face cache of this host."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from benchfleet import registry
from benchfleet.cli.shared.plugin_list import Entry, print_entries
from benchfleet.cli.text.output import say
from benchfleet.domain.humanize import sized
from benchfleet.environment import hub_cache
from benchfleet.machines.memory import read_checkpoint
from benchfleet.models.digest import cached_models, model_folder


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = "example: benchfleet models"
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """List the models with their size; those that lack files come last."""
    entries = list(_entries())
    if not entries and not arguments.json:
        say(f"no model in {hub_cache(os.environ)}; a campaign fetches the models that it names")
    return print_entries(entries, as_json=arguments.json)


def _entries() -> Iterator[Entry]:
    problem = registry.info("models", "transformers").problem
    complete = cached_models()
    for source in complete:
        folder = model_folder(source)
        config = read_checkpoint(folder).config
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        yield Entry(
            name=source,
            description=f"{', '.join(config.get('architectures') or ['a checkpoint'])}, "
            f"{sized(size)}",
            needs=["an adapter, such as transformers"],
            available=not problem,
            problem=problem,
            example=f"- {source}",
        )
    names = {source.partition("@")[0] for source in complete}
    for repository in sorted(hub_cache(os.environ).glob("models--*")):
        name = repository.name.removeprefix("models--").replace("--", "/")
        if name not in names:
            yield Entry(
                name=name,
                available=False,
                problem="its files are not complete; a run of it fetches the others",
                example=f"- {name}",
            )
