"""What an order would do: its cells, runner, device or phase, and its effect in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchfleet.dashboard.campaigns import ShownCampaign
from benchfleet.dashboard.foreign import visible
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.order_names import OrderNames, Verb
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.tiles import tile_id
from benchfleet.dashboard.views.failures import failure_groups
from benchfleet.dashboard.views.machines import Machine, machines
from benchfleet.dashboard.views.running import running_rows
from benchfleet.domain.humanize import counted, examples
from benchfleet.domain.slots import DeviceName, device_name, host_in
from benchfleet.runs.registry import Record, runs_of

TITLES: Mapping[str, str] = {
    "retry": "Retry",
    "cancel": "Cancel",
    "release": "Release",
    "drain": "Drain",
    "remove": "Exclude",
    "add": "Resume",
    "override": "Open the gate",
    "stop": "Stop the run",
}
_RETRIED = ("failed", "partial", "cancelled")
_ACTIVE = ("pending", "retrying", "running")
NO_CELL: Mapping[str, str] = {
    "retry": "nothing to retry: none of the cells is failed, partial or cancelled",
    "cancel": "nothing to cancel: none of the cells waits or runs",
    "release": "nothing to release: none of the cells runs",
}


class RefusedOrder(Exception):
    """The order names nothing that it could act on; the message says why."""


@dataclass(frozen=True, kw_only=True)
class OrderTarget:
    """What an order is about."""

    verb: Verb
    effect: str
    rows: Sequence[Row] = ()
    unknown: Sequence[str] = ()  # why ids of cells are refused
    runner: str = ""
    devices: Mapping[str, Sequence[DeviceName]] = field(default_factory=dict)  # by their runner
    later: Sequence[tuple[str, DeviceName]] = ()  # for later runs alone: machine and device
    phase: str = ""
    runs: Sequence[Record] = field(default=())  # of this machine


def target_of(campaign: ShownCampaign, model: ReadModel, named: OrderNames) -> OrderTarget:
    """The target of an order. Raises RefusedOrder."""
    if named.verb in ("retry", "cancel", "release"):
        return _cells_target(model, named)
    if named.verb in ("drain", "remove", "add"):
        return _device_target(model, named)
    if named.verb == "override":
        return _phase_target(campaign, model, named.phase)
    runs = [run for run in runs_of(campaign.study.layout) if run.is_running and run.ends_on]
    if not runs:
        raise RefusedOrder("no run of this campaign is active on the dashboard's machine")
    effect = f"{counted(len(runs), 'run')} on this machine ends after the samples at hand"
    return OrderTarget(verb=named.verb, effect=effect, runs=runs)


def _cells_target(model: ReadModel, named: OrderNames) -> OrderTarget:
    if not (named.cell or named.tile or named.group or named.runner):
        raise RefusedOrder("no cell is selected")
    verb = named.verb
    with model.lock:
        rows = _named_rows(model, named)
        unknown = [f"no such cell: {id}" for id in named.cell if id not in model.by_id]
        running = sum(row.state == "running" for row in rows)
        raced = ""
        if verb == "retry":
            chosen = [row for row in rows if row.state in _RETRIED]
            effect = f"{counted(len(chosen), 'cell', 'go')} back to waiting, with all tries"
            rows, raced = _without_raced(rows)
        elif verb == "cancel":
            chosen = [row for row in rows if row.state in _ACTIVE]
            effect = f"{counted(len(chosen), 'cell', 'are')} cancelled; samples are kept"
            if running:
                effect += f". {counted(running, 'running cell', 'stop')} after the sample at hand"
        else:
            chosen = [row for row in rows if row.state == "running"]
            effect = (
                f"{counted(len(chosen), 'running cell', 'go')} back to waiting. A runner that is "
                "still alive stops them and publishes nothing"
            )
    if not chosen and raced:
        raise RefusedOrder(f"nothing to retry: {raced}")
    if not chosen:
        reasons = [NO_CELL[verb]] if rows or not unknown else []
        raise RefusedOrder("; ".join(reasons + unknown[:1]))
    if unchanged := len(rows) - len(chosen):
        as_before = "as it is" if unchanged == 1 else "as they are"
        effect += f". {counted(unchanged, 'other cell', 'stay')} {as_before}"
    effect += f". {raced}" if raced else ""
    return OrderTarget(verb=verb, effect=effect, rows=chosen, unknown=unknown, runner=named.runner)


def _without_raced(rows: Sequence[Row]) -> tuple[list[Row], str]:
    """The cells that no race stopped, and a sentence about the others; "" where there are none."""
    others = [row for row in rows if row.state != "skipped"]
    count = len(rows) - len(others)
    if not count:
        return others, ""
    them = "it" if count == 1 else "them"
    why = f"stopped by the race; `benchfleet retry --raced` brings {them} back"
    return others, f"{counted(count, 'cell', 'stay')} {why}"


def _named_rows(model: ReadModel, named: OrderNames) -> list[Row]:
    if named.cell or named.tile:
        rows = [model.by_id[id] for id in named.cell if id in model.by_id]
        return list(dict.fromkeys(rows + _rows_of_tiles(model, named)))
    if named.group:
        groups = failure_groups(model)
        return [row for group in groups if group.id == named.group for row in group.rows]
    runner, parts_of = named.runner, model.split_cells.parts_of
    return [
        row
        for row in model.running.values()
        if row.runner == runner or any(part.runner == runner for part in parts_of(row.fingerprint))
    ]


def _rows_of_tiles(model: ReadModel, named: OrderNames) -> list[Row]:
    """The cells of the tiles, as far as the filters leave them."""
    requested, tests, now = set(named.tile), named.filters.tests(), running_rows(model)
    if not requested:
        return []
    every = [*model.pairs.values(), *model.tiles.values()]
    tiles = [one for one in every if tile_id(one.model, one.config, one.label) in requested]
    return [
        row
        for one in tiles
        for row in one.rows
        if all(test(now.get(row.index, row)) for test in tests)
    ]


def _device_target(model: ReadModel, named: OrderNames) -> OrderTarget:
    """One device of a runner, or all devices of a host; those that are left out need no runner to
    be given back."""
    verb, host, device = named.verb, named.host, named.device
    with model.lock:
        hosts = machines(model)
        left_out = _left_out(model, hosts, named) if verb == "add" else []
    every = [(one.name, runner) for one in hosts for runner in one.runners]
    using = [
        (name, one)
        for name, one in every
        if one.life != "ended" and (name == host if host else one.id == named.runner)
    ]
    if not using and not left_out:
        raise RefusedOrder("no runner is at work there any more")
    chosen: dict[str, list[str]] = {}
    running: list[str] = []
    where = host or next((one.name for one in hosts if set(left_out) & set(one.left_out)), "")
    for name, one in using:
        names = [*one.drained] if verb == "add" else one.drainable
        prefix = "" if one.at_home else name
        names += [each for _, each in left_out if host_in(each)[0] == prefix]
        names = [each for each in dict.fromkeys(names) if host or each == device]
        if names:
            chosen[one.id], where = names, name
            running += [visible(slot.row.path) for slot in one.slots_on(names) if slot.row]
    requested = {each for names in chosen.values() for each in names}
    later = [(machine, each) for machine, each in left_out if each not in requested]
    if not chosen and not later:
        raise RefusedOrder(f"there is no device here that a runner can {TITLES[verb].lower()}")
    count = sum(map(len, chosen.values())) + len(later)
    what = f"{counted(count, 'device') if host else device} of {where}"
    takes = f"{what} {'take' if count > 1 else 'takes'}"
    if verb == "add":
        effect = f"{takes} cells again{'' if chosen else ', in later runs'}"
    else:
        effect = f"{takes} no more cells"
        effect += ", in this run and in later ones, until resumed" if verb == "remove" else ""
        effect += f"; {examples(running)} ends first" if running else ""
    return OrderTarget(
        verb=verb,
        effect=effect,
        devices={id: [device_name(name) for name in names] for id, names in chosen.items()},
        later=[(machine, device_name(each)) for machine, each in later],
    )


def _left_out(
    model: ReadModel, hosts: Sequence[Machine], named: OrderNames
) -> list[tuple[str, str]]:
    """What the order names of the devices that later runs leave out: machine and device."""
    if named.host:
        return [each for one in hosts if one.name == named.host for each in one.left_out]
    began = model.fleet.runners.get(named.runner)
    homes = ("", began.data.get("machine")) if began else ()
    return [
        (machine, device)
        for one in hosts
        for machine, device in one.left_out
        if device == named.device and machine in homes
    ]


def _phase_target(campaign: ShownCampaign, model: ReadModel, phase: str) -> OrderTarget:
    if phase not in {one.name for one in campaign.study.campaign.phases}:
        raise RefusedOrder("the campaign has no such phase")
    decision = model.decisions.get(phase)
    if decision is not None and decision.state == "opened":
        raise RefusedOrder("this gate is open already")
    effect = f"the gate of {phase} opens, whatever its numbers say"
    return OrderTarget(verb="override", effect=effect, phase=phase)
