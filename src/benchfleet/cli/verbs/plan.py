"""``benchfleet plan``: the cells of a campaign, what each takes, and what a run would be like."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence

from benchfleet.cached_results import in_cache
from benchfleet.campaign_results import comparison_of
from benchfleet.cli.shared import option_types, options
from benchfleet.cli.shared.fleet import other_machines
from benchfleet.cli.shared.selection import list_cells
from benchfleet.cli.text import gate_text, placement_text
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.plan_text import explained, overview
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.errors import DeviceError
from benchfleet.fleet import choose_pool
from benchfleet.machines.devices import cores
from benchfleet.machines.memory import available_memory
from benchfleet.placement_loader import missing_data_of
from benchfleet.planner.explain import differences, earlier, find
from benchfleet.planner.matrix_warnings import matrix_warnings
from benchfleet.planner.power import Power, power
from benchfleet.planner.preview import as_json, known_records, planned, with_paths
from benchfleet.planner.replaced_record import replaced_record_warnings
from benchfleet.planner.reruns import find_reruns
from benchfleet.prefetch import downloads_of, missing_here
from benchfleet.study import Study


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.default_campaign(parser, example="benchfleet plan study.yaml --only configs=dense")
    options.choice(parser)
    options.devices(parser)
    options.placement(parser)
    parser.add_argument("--cells", action="store_true", help="list every cell, however many")
    parser.add_argument(
        "--effect",
        metavar="D",
        type=option_types.number(1e9, "effect {}: use a number above 0, such as 0.02"),
        help="say how many samples of each benchmark would show a difference of D, such as 0.02",
    )
    parser.add_argument(
        "--explain",
        metavar="CELL",
        help="what makes this cell (path, id or fingerprint) another than an earlier one",
    )
    parser.add_argument(
        "--prompts",
        metavar="CELL",
        help="the prompts of this cell (path, id or fingerprint) as text and as tokens, as its "
        "model will get them; no weights are loaded",
    )
    parser.add_argument(
        "-n",
        dest="count",
        metavar="N",
        type=option_types.count,
        default=3,
        help="with --prompts: those of the first N samples (3)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Check the campaign and say what a run of it would be like. Runs nothing."""
    study, cells = options.opened(arguments)
    if arguments.explain is not None:
        return _explain(arguments, study, cells)
    if arguments.prompts is not None:
        return _prompts(arguments, study, cells)
    pool, missing = None, ""
    names_devices = arguments.gpus is not None or arguments.cpu_slots is not None
    engine = None if names_devices else other_machines(study.campaign.engine)
    try:
        if engine is not None:
            missing = engine.problem
        else:
            pool = choose_pool(options.requested_devices(arguments, study.campaign))
    except DeviceError as error:
        missing = str(error)
    records = known_records(study, cells)
    phases = study.phases(cells, records)
    cached, cache_warnings = in_cache(study, cells, records)
    done = cached | {str(record.fingerprint) for record in records if record.state == "success"}
    missing_data = missing_data_of([cell for cell in cells if cell.fingerprint not in done])
    placement_rules = placement_text.placement_rules(
        study, host=study.host, missing_data=missing_data
    )
    plan = planned(
        cells,
        records,
        pool,
        missing=missing,
        ram=available_memory(),
        cores=cores(),
        endpoint_slots=study.campaign.machine.endpoint_slots,
        placement=placement_rules,
        cached=cached,
        excluded=_excluded(study, cells),
    )
    missing_downloads = missing_here(
        downloads_of([cell for cell in cells if cell.fingerprint not in done]), os.environ
    )
    open_ = [row.cell for row in plan.rows if row.state in ("pending", "running")]
    kept_off = [one for one in placement_rules.kept_off(open_) if one.host not in ("", study.host)]
    reruns = find_reruns(study, cells)
    warnings = [*matrix_warnings(cells), *replaced_record_warnings(study), *cache_warnings]
    effects = _effects(arguments, study, cells, records)
    if arguments.json:
        plan_text = {
            **as_json(study, plan),
            "reruns": [one.to_dict() for one in reruns],
            "warnings": warnings,
            "phases": [one.to_dict() for one in phases],
            "missing": [vars(one) for one in missing_downloads],
            "kept_off": [one.to_dict() for one in kept_off],
            "effects": [one.to_dict() for one in effects],
        }
        print_json(plan_text)
    else:
        notes = (*placement_rules.notes, *placement_rules.unreported(open_, [""] if pool else []))
        extra_lines = (*gate_text.lines(phases), *placement_text.lines(kept_off, notes))
        if engine is not None and not missing:
            extra_lines += (f"on machines of the engine {engine.name}; a run shows what they have",)
        if missing_downloads:
            extra_lines += (f"missing here: {', '.join(map(str, missing_downloads))}",)
            extra_lines += (f"benchfleet fetch {arguments.campaign} brings them",)
        lines = overview(study, plan, extra_lines, every_cell=arguments.cells)
        lines += [f"effect   {one.effect:g}: {one}" for one in effects]
        _print([*map(str, reruns), *warnings, *lines])
    return 0


def _excluded(study: Study, cells: Sequence[Cell]) -> dict[str, str]:
    """The cells that `runners` of the campaign keeps from this host, each with the reason."""
    allowed = {cell.fingerprint for cell in study.allowed_here(cells)}
    why = f"'runners' excludes {study.host}"
    return {str(cell.fingerprint): why for cell in cells if cell.fingerprint not in allowed}


def _effects(
    arguments: argparse.Namespace,
    study: Study,
    cells: Sequence[Cell],
    records: Sequence[CellRecord],
) -> list[Power]:
    """What shows the effect that is asked about; nothing is read without the option."""
    if arguments.effect is None:
        return []
    return power(comparison_of(study, cells, records), arguments.effect)


def _explain(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> int:
    records = known_records(study, cells)
    named = find(
        arguments.explain,
        list(with_paths(cells, records)),
        records,
        otherwise=list_cells(arguments),
    )
    states = {record.fingerprint: record.state for record in records}
    state: str = states.get(named.cell.fingerprint, "pending")
    cached, warnings = in_cache(study, [named.cell], records)
    if cached:
        state = "cached"
    before = [
        (record, differences(record.cell.identity(), named.cell.identity()))
        for record in earlier(named.cell, records)
        if record.cell
    ]
    if not arguments.json:
        _print([*warnings, *explained(named, state, before)])
        return 0
    payload = {
        "cell": named.path,
        "fingerprint": named.cell.fingerprint,
        "state": state,
        "identity": named.cell.identity(),
        "earlier": [
            {
                "cell": record.path,
                "fingerprint": record.fingerprint,
                "state": record.state,
                "differences": [vars(one) for one in differing],
            }
            for record, differing in before
        ],
    }
    print_json(payload)
    return 0


def _prompts(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> int:
    # Seldom needed, and slow to import.
    from benchfleet.cli.text.prompt_text import prompt_json, prompt_lines
    from benchfleet.slot.preview import preview

    records = known_records(study, cells)
    within = list(with_paths(cells, records))
    named = find(
        arguments.prompts, within, records, key="--prompts", otherwise=list_cells(arguments)
    )
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            seen = preview(named.cell, arguments.count)  # harnesses print as they go
    except BaseException:
        print(printed.getvalue(), end="", file=sys.stderr)
        raise
    if arguments.json:
        print_json(prompt_json(named.path, named.cell.fingerprint, seen))
    else:
        _print(prompt_lines(named.path, seen))
    return 0


def _print(lines: Sequence[str]) -> None:
    say(*(line.rstrip() for line in lines))
