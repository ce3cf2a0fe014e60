"""``benchfleet probe``: what this machine has and can do, as a capability report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from benchfleet.campaign.base import Campaign
from benchfleet.campaign.load import load_campaign
from benchfleet.cli.shared import options
from benchfleet.cli.text import probe_text
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import can_redraw, display_path
from benchfleet.domain.eligibility import PROBED
from benchfleet.domain.event import Event
from benchfleet.environment import host_name
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.machines.probe import hardware, report
from benchfleet.machines.probe.measure import measure_machine
from benchfleet.study import Study, open_study


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = (
        "example: benchfleet probe study.yaml --out reports\n"
        "         benchfleet probe study.yaml --out reports --machines machines.yaml"
    )
    parser.add_argument(
        "campaign",
        metavar="CAMPAIGN",
        type=Path,
        nargs="?",
        help="hold the machine against its rules, and recommend of its models",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path(), help="where the report goes (here)"
    )
    parser.add_argument("--quick", action="store_true", help="measure for 2 s instead of 8 s")
    parser.add_argument(
        "--ledger", metavar="URL", default="", help="record it in this ledger of CAMPAIGN too"
    )
    parser.add_argument(
        "--machines",
        metavar="FILE",
        type=Path,
        help="probe the hosts of this inventory over SSH instead, all at the same time",
    )
    options.hosts(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Look, measure, write the report, and say what is in it."""
    if arguments.ledger and arguments.campaign is None:
        raise wrong_option("--ledger", "name the CAMPAIGN whose ledger it is")
    campaign = load_campaign(arguments.campaign) if arguments.campaign else None
    if arguments.machines is not None:
        return _on_hosts(arguments, campaign)
    if arguments.hosts:
        message = "chooses among the machines of an inventory; name it with --machines"
        raise wrong_option("--hosts", message)
    arguments.out.mkdir(parents=True, exist_ok=True)
    disk_path = campaign.results if campaign else arguments.out.absolute()
    results = _results(disk_path, quick=arguments.quick)
    document = probe_text.document(results, campaign, hostname=_hostname(campaign))
    file = report.write(arguments.out, document)
    if arguments.ledger and campaign:
        _record(open_study(campaign, ledger=arguments.ledger), document)
    if arguments.json:
        print_json(document)
        return 0
    say(*probe_text.summary(document))
    say(f"report    {display_path(file.absolute())}")
    return 0


def _on_hosts(arguments: argparse.Namespace, campaign: Campaign | None) -> int:
    from benchfleet.cli.verbs import probe_hosts  # ssh and all that it takes

    probes = probe_hosts.probe(arguments, campaign)
    for one in probes:
        if one.document is not None:
            report.write(arguments.out, one.document)
            if arguments.ledger and campaign:
                _record(open_study(campaign, ledger=arguments.ledger), one.document)
    probe_hosts.show(arguments, probes)
    return 0 if all(one.document for one in probes) else 1


def _hostname(campaign: Campaign | None) -> str:
    try:
        return host_name(campaign.file.parent if campaign and campaign.file else None)
    except ValueError as error:
        raise BenchfleetError(str(error)) from None


def _results(disk_path: Path, *, quick: bool) -> dict[str, Any]:
    """The sections of the report; `disk_path` is on the disk that is meant."""
    gpu = hardware.gpus()
    sections = {
        "system": hardware.system(),
        "cpu": hardware.cpu(),
        "memory": hardware.memory(),
        "storage": hardware.storage(disk_path),
        "gpu": gpu,
        "software": hardware.software(),
        "llm": hardware.models(os.environ),
        "network": hardware.network(),
    }
    folder = Path(sections["storage"]["folder"])
    speed = measure_machine(folder, quick=quick, gpu=bool(gpu["devices"]), tell=_measuring)
    if can_redraw(sys.stderr):
        print("\r\x1b[K", end="", file=sys.stderr)
    return {**sections, "benchmark": speed}


def _measuring(what: str) -> None:
    if can_redraw(sys.stderr):
        print(f"\r\x1b[Kmeasuring {what}…", end="", file=sys.stderr, flush=True)


def _record(study: Study, document: Mapping[str, Any]) -> None:
    with closing(study.open_ledger()) as ledger:
        ledger.record(Event(kind=PROBED, data={"report": document}))
