"""``benchfleet export``: write the results for other tools."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from benchfleet import registry
from benchfleet.campaign_export import Export, MissingResult, export
from benchfleet.cli.shared import options
from benchfleet.cli.text.output import print_json, say
from benchfleet.errors import ExportError, PluginError, wrong_option
from benchfleet.exporters.base import Exporter

_MAX_LISTED_CELLS = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(
        parser, example="benchfleet export study.yaml --to mlflow=http://127.0.0.1:5000"
    )
    options.choice(parser)
    parser.add_argument(
        "--to",
        metavar="NAME[=WHERE]",
        action="append",
        required=True,
        help=f"the exporter, and where it writes; repeatable: "
        f"{', '.join(registry.names('exporters'))}",
    )


def main(arguments: argparse.Namespace) -> int:
    """Export what is sealed and not there yet; name what is missing."""
    study, cells = options.opened(arguments)
    exporters = [_exporter(one, study.campaign.name) for one in arguments.to]
    done: list[Export] = []
    answers: list[dict[str, Any]] = []
    for name, exporter in exporters:
        answer: dict[str, Any] = {"exporter": name, "where": exporter.where}
        answers.append(answer)
        try:
            result = export(study, cells, exporter)
        except ExportError as error:  # the others go on
            if arguments.debug:
                raise
            answer["error"] = str(error)
            say(f"benchfleet: {error}", to=sys.stderr)
            continue
        done.append(result)
        answer |= result.to_dict()
        if not arguments.json:
            _show(name, exporter, result)
    if arguments.json:
        print_json(answers)
    elif done:
        _show_missing(done[0].missing)
    is_any_lost = any(one.lost for result in done for one in result.missing)
    return 1 if is_any_lost or len(done) < len(exporters) else 0


def _exporter(text: str, campaign: str) -> tuple[str, Exporter]:
    name, _, where = text.partition("=")
    try:
        kind = registry.load("exporters", name)
    except PluginError as error:
        raise wrong_option(f"--to {name}", str(error)) from None
    return name, cast(Exporter, kind(where, campaign))


def _show(name: str, exporter: Exporter, result: Export) -> None:
    counts = {"new": result.new, "replaced": result.replaced, "unchanged": result.unchanged}
    text = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "no results"
    say(f"{name}: {text}; at {exporter.where}")
    if exporter.hint and result.new + result.replaced + result.unchanged:
        say(f"  next: {exporter.hint}")


def _show_missing(missing: Sequence[MissingResult]) -> None:
    if not missing:
        return
    lost = [one for one in missing if one.lost]
    states = Counter(one.reason.partition(":")[0] for one in missing if not one.lost)
    parts = [f"{count} {state}" for state, count in states.items()]
    parts += [f"{len(lost)} not as sealed"] if lost else []
    say(f"not exported: {', '.join(parts)}", to=sys.stderr)
    listed = [*lost, *(one for one in missing if not one.lost)]
    for one in listed[:_MAX_LISTED_CELLS]:
        say(f"  {one.cell}: {one.reason}", to=sys.stderr)
    if len(listed) > _MAX_LISTED_CELLS:
        say(f"  and {len(listed) - _MAX_LISTED_CELLS} more; --json lists all", to=sys.stderr)
