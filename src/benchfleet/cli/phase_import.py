"""``benchfleet phase import``: take over a repository of the earlier tools."""

from __future__ import annotations

import argparse
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

from benchfleet.bench import Bench, open_bench
from benchfleet.campaign.load import load_campaign
from benchfleet.cli.output import print_json, say
from benchfleet.cli.waiting import shown_as
from benchfleet.cli.words import shown_path
from benchfleet.domain.cell import Cell
from benchfleet.domain.entries import result_name
from benchfleet.domain.words import counted
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.results.earlier import Earlier, Entry, read_earlier
from benchfleet.runner.mending.imported import import_results

_SHOWN = 5  # names of a kind that are shown
_DRAFT = "phase_settings.py"


def main(arguments: argparse.Namespace) -> int:
    """Say what the repository holds; publish its results where the campaign says of which cells
    they are, or else write a campaign's file to be completed."""
    folder: Path = arguments.campaign
    found = read_earlier(folder) if folder.is_dir() else None
    if found is None:
        message = f"{folder} has neither phase/ nor runs/, also not below data/ or results/"
        raise wrong_option("DIR", message)
    told = _told(found)
    if arguments.settings is None:
        told |= _draft(arguments, found)
    else:
        told |= _published(arguments, found)
    if arguments.json:
        print_json(told)
    else:
        _show(told)
    return 0


def _told(found: Earlier) -> dict[str, Any]:
    entries = found.entries
    return {
        "root": str(found.root),
        "phases": {p: sum(p in entry.phases for entry in entries) for p in found.phases},
        "results": sum(entry.done for entry in entries),
        "to do": [e.name for e in entries if e.phases and not e.done and e.content is None],
        "in no list": [e.name for e in entries if e.content is not None and not e.phases],
        "done, and still in a list": [e.name for e in entries if e.done and e.phases],
        "errors that counted as done": [f"{e.name}: {e.error}" for e in entries if e.error],
        "claimed and never finished": [
            f"{e.name} by {', '.join(e.claims)}" for e in entries if e.claims and not e.done
        ],
        "names that cannot be told apart": [e.name for e in entries if e.parts is None],
        "could not be read": [f"{file}: {why}" for file, why in found.unreadable],
    }


def _draft(arguments: argparse.Namespace, found: Earlier) -> dict[str, Any]:
    """Write a campaign's file of what is known; how one of its runs is run, its owner must say."""
    file = Path(_DRAFT)
    told = {"next": f"say in {file} how one is run, then: {_again(arguments, file)}"}
    if arguments.dry_run:
        return told
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(_settings(found))
    except FileExistsError:
        return {"next": f"{file} is there already; {told['next']}"}
    return {"written": str(file), **told}


def _again(arguments: argparse.Namespace, file: Path) -> str:
    return f"benchfleet phase import {arguments.campaign} --settings {file}"


def _settings(found: Earlier) -> str:
    lines = ['"""Phases as they were found; a phase runs all combinations of its axes."""', ""]
    lines += ["from benchfleet import PhaseDefinition", "", "PHASES = ["]
    taken: set[Any] = set()  # a cell is of the first phase that has it
    for phase in [*found.phases, ""]:
        of = [e.parts for e in found.entries if e.parts and (phase in e.phases or not phase)]
        if not phase:  # what no list has, as far as no phase would have it anyway
            of = [parts for parts in of if parts not in taken]
        if not of:
            continue
        axes = [list(dict.fromkeys(part[n] for part in of)) for n in range(3)]
        reruns = max(part[3] for part in of) + 1
        cells = set(product(*axes, range(reruns)))
        if cells <= taken:
            all_cells = counted(len(cells), "cell")
            lines.append(f"    # {phase!a}: phases above have all of its {all_cells}")
            continue
        taken |= cells
        lines += [
            "    PhaseDefinition(",
            f"        phase={phase or 'unlisted'!r},",
            f"        levels={axes[0]!r},",
            f"        models={axes[1]!r},",
            f"        configs={axes[2]!r},",
            f"        reruns={reruns},",
            "    ),",
        ]
    lines += ["]", "", "# How one of them is run: its last line of output is its result as JSON."]
    lines += ["# RUN = ['python', 'run.py', '{benchmark}', '{model}', '{config_name}', '{repeat}']"]
    return "\n".join(lines) + "\n"


def _published(arguments: argparse.Namespace, found: Earlier) -> dict[str, Any]:
    campaign = load_campaign(arguments.settings).with_results(arguments.results)
    bench = open_bench(campaign, ledger=arguments.ledger)
    cells: dict[str, Cell] = {}
    for cell in bench.cells():
        if cells.setdefault(result_name(cell), cell) != cell:
            raise BenchfleetError(f"two cells would be called {result_name(cell)}; rename one")
    done = [entry for entry in found.entries if entry.done]
    pairs = [(cells[entry.name], entry) for entry in done if entry.name in cells]
    told: dict[str, Any] = {
        "of no cell of the campaign": [entry.name for entry in done if entry.name not in cells]
    }
    if arguments.dry_run:
        return {**told, "would be published": len(pairs)}
    return {**told, **_entered(bench, list(cells.values()), pairs, found)}


def _entered(
    bench: Bench, cells: list[Cell], pairs: list[tuple[Cell, Entry]], found: Earlier
) -> dict[str, Any]:
    with closing(bench.ledger()) as ledger:
        bench.tell(ledger)
        ledger.enroll(cells)
        source = str(found.root.resolve())
        with shown_as("results taken over") as seen:
            end = import_results(ledger, bench.layout, pairs, source=source, seen=seen)
    return {
        "published": end.taken,
        "known already": end.known,
        "run by somebody now": list(end.held),
        "where": str(shown_path(bench.layout.root)),
    }


def _show(told: dict[str, Any]) -> None:
    for what, value in told.items():
        if isinstance(value, list):
            if value:
                say(f"{what}: {len(value)}")
            for one in value[:_SHOWN]:
                say(f"  {one}")
            if len(value) > _SHOWN:
                print(f"  … and {len(value) - _SHOWN} more (--json has all)")
        elif isinstance(value, dict):
            counts = ", ".join(f"{name} {count}" for name, count in value.items())
            say(f"{what}: {counts or 'none'}")
        else:
            say(f"{what}: {value}")
