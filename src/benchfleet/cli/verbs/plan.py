"""``benchfleet plan``: the cells of a campaign, what each takes, and what a run would be like."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchfleet.cli.shared import options
from benchfleet.cli.text import gate_text, placement_text
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.plan_text import explained, overview
from benchfleet.domain.cell import Cell
from benchfleet.errors import DeviceError
from benchfleet.fleet import choose_pool
from benchfleet.machines.devices import cores
from benchfleet.machines.memory import available_memory
from benchfleet.placement_loader import missing_data_of
from benchfleet.planner.explain import differences, earlier, find
from benchfleet.planner.preview import as_json, known_records, planned, with_paths
from benchfleet.planner.reruns import find_reruns
from benchfleet.study import Study


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet plan study.yaml --only configs=dense")
    options.choice(parser)
    options.devices(parser)
    options.placement(parser)
    parser.add_argument("--cells", action="store_true", help="list every cell, however many")
    parser.add_argument(
        "--explain",
        metavar="CELL",
        help="what makes this cell (path, id or fingerprint) another than an earlier one",
    )


def main(arguments: argparse.Namespace) -> int:
    """Check the campaign and say what a run of it would be like. Runs nothing."""
    study, cells = options.opened(arguments)
    if arguments.explain is not None:
        return _explain(arguments, study, cells)
    pool, missing = None, ""
    try:
        pool = choose_pool(options.requested_devices(arguments, study.campaign))
    except DeviceError as error:
        missing = str(error)
    records = known_records(study, cells)
    phases = study.phases(cells, records)
    done = {record.fingerprint for record in records if record.state == "success"}
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
        placement=placement_rules,
    )
    open_ = [row.cell for row in plan.rows if row.state in ("pending", "running")]
    kept_off = [one for one in placement_rules.kept_off(open_) if one.host not in ("", study.host)]
    reruns = find_reruns(study, cells)
    if arguments.json:
        plan_text = {
            **as_json(study, plan),
            "reruns": [one.to_dict() for one in reruns],
            "phases": [one.to_dict() for one in phases],
            "kept_off": [one.to_dict() for one in kept_off],
        }
        print_json(plan_text)
    else:
        notes = (*placement_rules.notes, *placement_rules.unreported(open_, [""] if pool else []))
        extra_lines = (*gate_text.lines(phases), *placement_text.lines(kept_off, notes))
        lines = overview(study, plan, extra_lines, every_cell=arguments.cells)
        _print([*map(str, reruns), *lines])
    return 0


def _explain(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> int:
    records = known_records(study, cells)
    named = find(arguments.explain, list(with_paths(cells, records)), records)
    states = {record.fingerprint: record.state for record in records}
    state = states.get(named.cell.fingerprint, "pending")
    before = [
        (record, differences(record.cell.identity(), named.cell.identity()))
        for record in earlier(named.cell, records)
        if record.cell
    ]
    if not arguments.json:
        _print(explained(named, state, before))
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


def _print(lines: Sequence[str]) -> None:
    say(*(line.rstrip() for line in lines))
