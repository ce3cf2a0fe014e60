"""``benchfleet race``: stop the configs that are surely worse than the one that leads."""

from __future__ import annotations

import argparse
from contextlib import closing

from benchfleet.cli.shared import missing_ledger, next_command, options
from benchfleet.cli.text.output import print_json, print_whole, say
from benchfleet.domain.humanize import counted
from benchfleet.domain.plain_text import one_line
from benchfleet.race import Racer, record_stops
from benchfleet.reports import race_table
from benchfleet.reports.race_standings import Group, Race


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet race study.yaml --dry-run")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be stopped; change nothing"
    )


def main(arguments: argparse.Namespace) -> int:
    """Decide the race once by the results that are here; its cells are cancelled."""
    study, cells = options.opened(arguments)
    ledger = study.open_existing_ledger(writes=not arguments.dry_run)
    if ledger is None:
        missing_ledger.warn(arguments, study, always=True)
        if arguments.json:
            print_json(
                {"campaign": study.campaign.name, "dry_run": arguments.dry_run, "groups": []}
            )
        return 0
    with closing(ledger):
        if not arguments.dry_run:
            ledger.enroll(cells)
        race = Racer(study, cells).look(ledger, enrolled=not arguments.dry_run)
        stops = list(race.stops(by=study.host))
        if not arguments.dry_run:
            record_stops(ledger, stops)
    if arguments.json:
        print_json(
            {"campaign": study.campaign.name, "dry_run": arguments.dry_run, **race.to_dict()}
        )
        return 0
    _print(race, would=arguments.dry_run)
    if stops:
        count = counted(sum(len(stop.cells) for stop in stops), "cell")
        if arguments.dry_run:
            say(f"this would cancel {count}: {next_command.same_choice(arguments, 'race')}")
        else:
            say(f"{count} cancelled; bring them back: {_retry(arguments)}")
    elif not all(group.note for group in race.groups):
        print("nothing to stop")
    return 0


def _retry(arguments: argparse.Namespace) -> str:
    return f"{next_command.same_choice(arguments, 'retry')} --raced"


def _print(race: Race, *, would: bool) -> None:
    if not race.groups:
        print("nothing races: no benchmark has several configs and repeats")
        return
    for group in race.groups:
        say(f"{group.model} / {group.benchmark}")
        if group.note:
            say(f"  does not race: {group.note}")
        if not group.note or any(one.stopped for one in group.standings):
            print_whole(_table(group, would=would))
    if all(group.note for group in race.groups):
        return
    share, pairs = f"{100 * race.confidence:g} %", counted(race.comparisons, "comparison")
    say(f"intervals hold together with {share} confidence at every look, over {pairs}")


def _table(group: Group, *, would: bool) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in race_table.HEAD:
        table.add_column(Text(name), no_wrap=True)
    stops = {"stops": "would stop"} if would else {}
    for one in group.standings:
        config, *rest = map(one_line, race_table.row(one, **stops))
        table.add_row(*map(Text, [f"  {config}", *rest]))
    return table
