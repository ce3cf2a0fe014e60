"""``benchfleet probe --machines``: the reports of hosts that ssh reaches, made there, kept here."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchfleet.campaign.base import Campaign
from benchfleet.campaign.inventory import known_hosts_of
from benchfleet.cli.shared import fleet
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.probe_text import document, standing
from benchfleet.cli.text.terminal import display_path
from benchfleet.cli.verbs.hosts_check import check
from benchfleet.domain.host import Host
from benchfleet.engines.commands import probe as measure
from benchfleet.engines.openssh import OpenSsh, connections
from benchfleet.engines.ssh_command import ask
from benchfleet.errors import BenchfleetError
from benchfleet.machines.probe import report
from benchfleet.machines.wheel import interpreter_of


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What came of one host."""

    host: str
    document: Mapping[str, Any] | None = None  # its report
    problem: str = ""  # why there is none


def probe(arguments: argparse.Namespace, campaign: Campaign | None) -> list[Probed]:
    """Have the hosts of an inventory measure themselves, all at the same time. Raises CampaignError
    where it names none."""
    hosts = fleet.chosen(arguments)
    with connections(known_hosts_of(arguments.machines)) as ssh:
        return fleet.on_all(hosts, lambda host: _one(host, ssh, campaign, arguments.quick))


def _one(host: Host, ssh: OpenSsh, campaign: Campaign | None, quick: bool) -> Probed:
    checked = check(host, ssh)
    if checked.trouble:
        problem = f"{checked.trouble.stage}: {checked.trouble.message}"
        bare = checked.trouble.stage == "benchfleet" and not host.python
        hint = "; see `benchfleet hosts bootstrap`" if bare else ""
        return Probed(host=host.name, problem=problem + hint)
    words = measure(replace(host, python=interpreter_of(host)), quick=quick)
    answer = ask(ssh, host, words)
    if answer.code != 0:
        return Probed(host=host.name, problem=answer.last or f"exit code {answer.code}")
    try:
        # a login script may say something
        document = json.loads(answer.out[answer.out.index("{") :])
        return Probed(host=host.name, document=_by_our_rules(host, document["results"], campaign))
    except (ValueError, LookupError, TypeError, BenchfleetError) as error:
        return Probed(host=host.name, problem=f"it sent no capability report: {error}")


def _by_our_rules(
    host: Host, results: Mapping[str, Any], campaign: Campaign | None
) -> dict[str, Any]:
    """The report as the host would have written it, had it the campaign: of the GPUs that the
    inventory lets us use."""
    sections = {name: section for name, section in results.items() if name != "eligibility"}
    if host.gpus is not None:
        devices = [gpu for gpu in sections["gpu"]["devices"] if gpu["index"] in host.gpus]
        sections["gpu"] = {**sections["gpu"], "devices": devices}
    adapted = document(sections, campaign, hostname=host.name)
    report.read(adapted, f"what {host.name} sent")
    return adapted


def show(arguments: argparse.Namespace, probes: list[Probed]) -> None:
    """Print each host's report, or in a line what it can do."""
    if arguments.json:
        hosts = [
            {"host": one.host, "report": one.document, "problem": one.problem} for one in probes
        ]
        print_json({"hosts": hosts})
        return
    for one in probes:
        if one.document is None:
            say(f"{one.host}: {one.problem}")
            continue
        judged = one.document["results"]["eligibility"]
        file = display_path((arguments.out / report.file_name(one.host)).absolute())
        say(f"{one.host}: {standing(judged)} → {file}")
