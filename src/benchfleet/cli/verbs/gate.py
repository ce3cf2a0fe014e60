"""``benchfleet gate``: the gates between a campaign's phases, shown, evaluated and overridden."""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from benchfleet.cli.shared import missing_ledger, options
from benchfleet.cli.shared.actions import Action, add_actions
from benchfleet.cli.text import gate_text
from benchfleet.cli.text.output import print_json, say
from benchfleet.domain.phase import GATE_EVENTS, gate_reset, may_run, newest_decisions
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.hints import hint
from benchfleet.ledger.gates import PhaseStatus, cells_by_phase, decide_phase
from benchfleet.orders.base import Origin, who
from benchfleet.orders.gates import override
from benchfleet.study import Study

_EXAMPLE = "benchfleet gate override study.yaml e0 --reason 'known'"


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = f"example: {_EXAMPLE}"
    add_actions(parser, _ACTIONS, _options)


def _options(parser: argparse.ArgumentParser) -> None:
    options.optional_campaign(parser, example=_EXAMPLE)
    parser.add_argument("phase", metavar="PHASE", nargs="?", default="", help="only this one")


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--again", action="store_true", help="also where a gate is decided already")


def _override_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", metavar="TEXT", default="", help="why you override it")


def main(arguments: argparse.Namespace) -> int:
    """Do the action, and say how the gates stand."""
    named = arguments.campaign
    if arguments.ledger and named and not arguments.phase and not named.exists():
        arguments.phase, arguments.campaign = str(named), None  # no file: it names the phase
    study, _ = options.opened(arguments)
    names = [phase.name for phase in study.campaign.phases]
    if not names:
        raise BenchfleetError(f"{study.campaign.name} has no phases, so it has no gates")
    if arguments.phase and arguments.phase not in names:
        instead = hint(arguments.phase, names)
        raise wrong_option("PHASE", f"unknown phase {arguments.phase!r}; {instead}")
    return int(arguments.do(arguments, study))


def _show(arguments: argparse.Namespace, study: Study) -> int:
    if not study.has_ledger():
        missing_ledger.warn(arguments, study)
    standings = [one for one in _standings(study) if arguments.phase in ("", one.phase.name)]
    if arguments.json:
        data = {"campaign": study.campaign.name, "phases": [one.to_dict() for one in standings]}
        print_json(data)
    else:
        say(*gate_text.lines(standings))
        for one in standings:
            say(*_decision_lines(one))
    return 1 if any(map(gate_text.closed, standings)) else 0


def _decision_lines(one: PhaseStatus) -> list[str]:
    """What is behind a decision, line by line."""
    gate = one.decision
    if gate is None:
        return []
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(gate.at))
    counts = ", ".join(f"{many} {state}" for state, many in gate.cells.items())
    lines = [f"{one.phase.name}: {gate.state} by {gate.by} at {at}" + f" ({counts})" * bool(counts)]
    lines += [f"  {part}" for part in (gate.expression, gate.why, *gate.numbers) if part]
    return lines


def _check(arguments: argparse.Namespace, study: Study) -> int:
    """Weigh what can be weighed. A gate that is to be weighed again while cells of its phase are
    left is undecided from now on, and a run weighs it when they have ended."""
    if study.campaign.file is None:
        raise wrong_option("CAMPAIGN", "is missing; evaluating a gate needs the campaign's file")
    ledger = study.open_existing_ledger(writes=True)
    if ledger is None:
        raise BenchfleetError(f"{study.campaign.name} has not run yet")
    messages = []
    cells = cells_by_phase(study.cells(), study.campaign.phases)
    with closing(ledger):
        for phase in study.campaign.phases:
            decided = newest_decisions(ledger.events(kinds=GATE_EVENTS))
            if arguments.phase not in ("", phase.name):
                continue
            if phase.name in decided and not arguments.again:
                messages.append(f"{phase.name}: already decided; --again evaluates it again")
                continue
            others = {name: gate for name, gate in decided.items() if name != phase.name}
            if not may_run(phase.name, study.campaign.phases, others):
                continue
            decision = decide_phase(phase, cells[phase.name], ledger, by=who(study))
            if decision is not None:
                ledger.record(decision.event())
            elif phase.name in decided:
                ledger.record(gate_reset(phase.name, who(study)))
                messages.append(f"{phase.name}: undecided again, until its cells have ended")
            else:
                messages.append(f"{phase.name}: not all of its cells have ended")
    if not arguments.json:
        say(*messages)
    return _show(arguments, study)


def _override(arguments: argparse.Namespace, study: Study) -> int:
    if not arguments.phase:
        raise wrong_option("PHASE", "name the phase whose gate is to be opened")
    if not arguments.reason.strip():
        raise wrong_option("--reason", "give a reason; the ledger records it with your name")
    with closing(study.open_ledger()) as ledger:
        why = arguments.reason.strip()
        override(study, ledger, arguments.phase, why, Origin(by=who(study)))
    arguments.phase = ""
    _show(arguments, study)
    return 0


def _standings(study: Study) -> list[PhaseStatus]:
    cells = study.cells()
    return study.phases(cells, study.records(cells))


_ACTIONS: dict[str, Action] = {
    "show": ("show the state of each gate, with its numbers", _show, None),
    "check": ("evaluate the gates of complete phases", _check, _check_options),
    "override": (
        "open a gate regardless of its numbers; records who did so and why",
        _override,
        _override_options,
    ),
}
