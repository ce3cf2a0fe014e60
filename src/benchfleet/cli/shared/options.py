"""The options that verbs share, under the same names everywhere."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from benchfleet import registry
from benchfleet.campaign.base import Campaign, Machine
from benchfleet.campaign.load import DRAFT_NAME, load_campaign
from benchfleet.campaign.selection import choose_cells
from benchfleet.campaign.stores import store_flaw
from benchfleet.cli.shared.option_types import count
from benchfleet.domain.cell import Cell
from benchfleet.domain.host import AUTO
from benchfleet.errors import wrong_option
from benchfleet.judgements import with_judgements
from benchfleet.ledger_campaign import campaign_of
from benchfleet.study import Study, open_study

DRAFT = Path(DRAFT_NAME)  # what ``benchfleet init`` writes


def campaign(parser: argparse.ArgumentParser, *, example: str) -> None:
    """The campaign file, where its results and ledger are, and JSON."""
    parser.epilog = f"example: {example}"
    parser.add_argument("campaign", metavar="CAMPAIGN", type=Path, help="the campaign file")
    where(parser)


def default_campaign(parser: argparse.ArgumentParser, *, example: str) -> None:
    """The same, where the file that ``benchfleet init`` writes need not be named."""
    parser.epilog = f"example: {example}"
    parser.add_argument(
        "campaign",
        metavar="CAMPAIGN",
        type=Path,
        nargs="?",
        default=DRAFT,
        help=f"the campaign file ({DRAFT})",
    )
    where(parser)


def optional_campaign(parser: argparse.ArgumentParser, *, example: str) -> None:
    """The same, where a campaign may be named by its ledger alone."""
    parser.epilog = f"example: {example}"
    parser.add_argument(
        "campaign",
        metavar="CAMPAIGN",
        type=Path,
        nargs="?",
        help="the campaign file; without it, the campaign is read from --ledger",
    )
    where(parser)
    parser.add_argument(
        "--campaign",
        dest="named",
        metavar="NAME",
        default="",
        help="without a campaign file: which of the ledger's campaigns, where it has several",
    )


def where(parser: argparse.ArgumentParser) -> None:
    """Where a campaign's results and ledger are, and JSON."""
    parser.add_argument("--results", metavar="DIR", type=_folder, help="keep results here instead")
    parser.add_argument(
        "--ledger",
        metavar="URL",
        default="",
        help="the ledger, such as sqlite:///path/ledger.db or postgresql://user@host/database",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def choice(parser: argparse.ArgumentParser) -> None:
    """The part of the campaign that the command is about."""
    parser.add_argument(
        "--only",
        metavar="AXIS=NAME,…",
        action="append",
        default=[],
        help="only these cells, by axis (models, configs, benchmarks, subsets, repeats, phases); "
        "globs work, ! negates",
    )
    parser.add_argument(
        "--exclude",
        metavar="AXIS=NAME,…",
        action="append",
        default=[],
        help="leave these cells out",
    )
    parser.add_argument(
        "--limit", metavar="N", type=count, help="the first N samples only, as cells of their own"
    )


def devices(parser: argparse.ArgumentParser) -> None:
    """What of the machine to use."""
    parser.add_argument("--gpus", metavar="0,1", type=_ids, help="run on these GPUs")
    parser.add_argument(
        "--cpu-slots",
        metavar="N|auto",
        type=_slots,
        help="run on N CPU slots; auto: as many as memory and cores allow",
    )
    parser.add_argument(
        "--slots-per-gpu",
        metavar="N|auto",
        type=_slots,
        help="slots on each GPU; auto: more while its memory and utilisation allow, fewer where "
        "memory ran out",
    )
    parser.add_argument(
        "--max-concurrent-runs",
        metavar="N",
        type=count,
        help="slots over all devices; more than there are GPUs share them",
    )


def detaching(parser: argparse.ArgumentParser) -> None:
    """Whether a run goes on without its terminal."""
    parser.add_argument(
        "--detach", action="store_true", help="continue in the background; see attach and stop"
    )
    parser.add_argument(
        "--another",
        action="store_true",
        help="with --detach: also while another run is active; they share the cells",
    )


def placement(parser: argparse.ArgumentParser) -> None:
    """Which waiting cells go first."""
    parser.add_argument(
        "--placement",
        metavar="NAME",
        help="which waiting cells go first: warm-first, longest-first, shortest-first, fifo or a "
        "plugin's, over the campaign's",
    )
    parser.add_argument(
        "--split",
        metavar="N|auto",
        type=_slots,
        help="split each cell that can be into N parts that run at once, over the campaign's; "
        "auto: when slots are out of work",
    )


def gpu_checks(parser: argparse.ArgumentParser) -> None:
    """How GPUs are looked at before a slot takes them."""
    parser.add_argument(
        "--share-gpus",
        action="store_true",
        help="use the GPUs of --gpus or the inventory although other processes use them",
    )
    parser.add_argument(
        "--trial-gpus",
        action="store_true",
        help="run a short computation on each GPU before it is used",
    )
    parser.add_argument(
        "--trial-load",
        action="store_true",
        help="load a model of the campaign on each device and query it once before any cell starts",
    )


RequestedDevices = Machine  # None: not given


def machines(parser: argparse.ArgumentParser) -> None:
    """What other machines to use."""
    parser.add_argument(
        "--machines", metavar="FILE", type=Path, help="run on the machines of this inventory"
    )
    hosts(parser)
    parser.add_argument(
        "--engine",
        metavar="NAME",
        default="",
        help="what opens the slots: local, ray or a plugin's, over the campaign's (local)",
    )
    parser.add_argument(
        "--ray-address",
        metavar="HOST:PORT",
        default="",
        help="with --engine ray: the cluster (RAY_ADDRESS, or the one that runs here)",
    )


def hosts(parser: argparse.ArgumentParser) -> None:
    """The part of an inventory that is meant."""
    parser.add_argument(
        "--hosts",
        metavar="NAME,…",
        action="append",
        default=[],
        help="only these of its machines, by name or label; globs work, ! negates",
    )


def requested_devices(arguments: argparse.Namespace, campaign: Campaign) -> RequestedDevices:
    """GPUs, CPU slots and slots in all: the command line's over the campaign's."""
    declared = campaign.machine
    requested = (arguments.gpus, arguments.cpu_slots)
    if None not in requested:
        message = "exclude each other; a run uses GPUs or CPU slots"
        raise wrong_option("--gpus --cpu-slots", message)
    origin = f"{campaign.cli_name}, {declared.gpus_origin}" if requested == (None, None) else ""
    gpus, cpu_slots = (
        requested if requested != (None, None) else (declared.gpus, declared.cpu_slots)
    )
    per_gpu = arguments.slots_per_gpu
    if per_gpu is not None and cpu_slots is not None:
        message = "needs GPUs, but the run uses CPU slots; drop one of the two"
        raise wrong_option("--slots-per-gpu", message)
    return replace(
        declared,
        gpus=gpus,
        gpus_origin=origin,
        cpu_slots=cpu_slots,
        max_concurrent_runs=arguments.max_concurrent_runs or declared.max_concurrent_runs,
        slots_per_gpu=declared.slots_per_gpu if per_gpu is None else per_gpu,
    )


def _folder(text: str) -> Path:
    if "://" in text or store_flaw(text):
        message = f"{text!r} is no folder; write a store as `results:` in the campaign file"
        raise argparse.ArgumentTypeError(message)
    return Path(text)


def _ids(text: str) -> tuple[int, ...]:
    try:
        ids = tuple(int(part) for part in text.split(","))
    except ValueError:
        ids = (-1,)
    if min(ids) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of GPU ids: use 0,1")
    return ids


def _slots(text: str) -> int:
    if text == "auto":
        return AUTO
    try:
        return count(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or auto") from None


def _gpus_problem(machine: Machine) -> str:
    from benchfleet.fleet import gpus_problem  # the engines, which most verbs do not need

    return gpus_problem(machine)


def opened(arguments: argparse.Namespace) -> tuple[Study, list[Cell]]:
    """The campaign as the options change it, and its chosen cells."""
    if arguments.campaign is None:
        if not arguments.ledger:
            raise wrong_option("CAMPAIGN", "is missing; give its file, or --ledger")
        campaign = campaign_of(arguments.ledger, arguments.named, results=arguments.results)
    else:
        runs_here = [getattr(arguments, name, "") for name in ("gpus", "cpu_slots")] == [None, None]
        check = _gpus_problem if runs_here else lambda machine: ""
        campaign = load_campaign(arguments.campaign, check_machine=check)
        campaign = campaign.with_results(arguments.results)
        if named := getattr(arguments, "named", ""):
            message = f"is for campaigns without a file; drop it, since {campaign.file} is given"
            raise wrong_option(f"--campaign {named}", message)
    cells = choose_cells(
        open_study(campaign, ledger=arguments.ledger).cells(),
        only=getattr(arguments, "only", ()),
        exclude=getattr(arguments, "exclude", ()),
        limit=getattr(arguments, "limit", None),
    )
    if (policy := getattr(arguments, "placement", None)) is not None:
        registry.load("policies", policy)
        campaign = replace(campaign, placement=policy)
    study = open_study(campaign, ledger=arguments.ledger)
    return study, with_judgements(study, cells)
