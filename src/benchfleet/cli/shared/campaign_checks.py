"""Whether a campaign can be run from here: its plugins, models, folder, ledger, devices, hosts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchfleet import registry
from benchfleet.campaign.inventory import (
    choose_hosts,
    known_hosts_of,
    load_inventory,
    same_machines,
)
from benchfleet.cli.shared import options
from benchfleet.cli.shared.fleet import on_all, other_machines
from benchfleet.cli.text.placement_text import placement_rules
from benchfleet.cli.verbs.hosts_check import HostCheck, check
from benchfleet.domain.cell import Cell, Model
from benchfleet.domain.humanize import counted, sized
from benchfleet.engines.openssh import connections
from benchfleet.environment import offline
from benchfleet.errors import (
    BenchfleetError,
    CampaignError,
    DeviceError,
    LedgerError,
    MissingExtra,
    ResultsError,
    StoreUnreachable,
)
from benchfleet.fleet import choose_pool
from benchfleet.ledger.addresses import split_url
from benchfleet.ledger.sqlite.file import mount_table, network_file_system
from benchfleet.machines.checkup import Check, folder_check, judged
from benchfleet.machines.devices import cores
from benchfleet.machines.memory import available_memory
from benchfleet.models.digest import hub_name, model_folder
from benchfleet.notifications.addresses import read_addresses
from benchfleet.planner.preview import planned
from benchfleet.results.stores.base import ResultStore
from benchfleet.runner.disk_guard import FLOOR_BYTES
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runs.registry import runs_of
from benchfleet.study import Study

_MAX_LISTED_CELLS = 3  # cells by name
_MODULES = {"llama_cpp": "llama-cpp-python"}  # packages that are called otherwise


def campaign_checks(arguments: argparse.Namespace) -> Iterator[Check]:
    """What a run of the campaign needs beside a good machine."""
    try:
        study, cells = options.opened(arguments)
    except CampaignError as error:
        yield from _mistakes("campaign", error)
        return
    except LedgerError as error:
        yield judged("ledger", str(error), "name the ledger of the campaign", problem=True)
        return
    yield judged("campaign", f"{study.campaign.name}, {counted(len(cells), 'cell')}", "")
    yield from _plugins(cells)
    models = {(cell.model.load_key, cell.model.source): cell.model for cell in cells}
    yield from _models(models.values())
    yield folder_check(
        "results", study.layout.root, least=FLOOR_BYTES, fix="name another folder with --results"
    )
    yield from _store(study)
    yield from _result_cache(study)
    yield from _notifications(study)
    yield from _ledger(study)
    for run in runs_of(study.layout):
        if run.is_running:
            yield judged("runs", f"one is running: {run.label}; a second run shares its work", "")
    yield from _reports(arguments, study, cells)
    if arguments.machines is None:
        yield from _devices(arguments, study, cells)


def host_checks(arguments: argparse.Namespace) -> Iterator[Check]:
    """Whether each machine of the inventory can be used."""
    try:
        inventory = choose_hosts(load_inventory(arguments.machines), arguments.hosts)
    except CampaignError as error:
        yield from _mistakes("machines", error)
        return
    if not inventory.hosts:
        return
    try:
        with connections(known_hosts_of(arguments.machines)) as ssh:
            host_results = on_all(inventory.hosts, lambda host: check(host, ssh))
    except BenchfleetError as error:
        yield judged("hosts", str(error), "fix that first", problem=True)
        return
    any_usable = any(one.trouble is None for one in host_results)
    for one in host_results:
        yield from _host(one, arguments.machines, any_usable=any_usable)
    for message in same_machines(inventory.hosts):
        yield judged("hosts", message, f"change {arguments.machines}", warning=True)


def _mistakes(what: str, error: CampaignError) -> Iterator[Check]:
    """Each mistake in a file or on the command line."""
    for mistake in error.mistakes:
        where = f"line {mistake.line}, {mistake.key}" if mistake.line else mistake.key
        message = f"{where}: {mistake.message}" if where else mistake.message
        yield judged(what, message, f"fix it in {error.file}", problem=True)


def _host(one: HostCheck, machines: Path, *, any_usable: bool) -> Iterator[Check]:
    """Whether this machine can be used; a run goes on without it where another can."""
    what = f"host {one.host.name}"
    if one.trouble is not None:
        fix = f"benchfleet hosts check {machines} --hosts {one.host.name}"
        if one.trouble.stage == "benchfleet" and not one.host.python:
            fix = f"benchfleet hosts bootstrap {machines} --hosts {one.host.name}"
        message = f"{one.trouble.stage}: {one.trouble.message}"
        yield judged(what, message, fix, problem=not any_usable, warning=any_usable)
    elif one.facts is not None:
        gpus = f", {len(one.facts.gpus)} GPUs" if one.facts.gpus else ""
        message = f"answers in {one.reached or 0:.1f} s, {one.facts.cores} cores{gpus}"
        yield judged(what, f"{message}, benchfleet {one.facts.benchfleet}", "")
    for note in one.notes:
        yield judged(what, note, "fix it, or leave the host out with --hosts", warning=True)


def _plugins(cells: Sequence[Cell]) -> Iterator[Check]:
    """The packages behind what the campaign names; reading it refused what lacks some."""
    adapters = sorted({cell.model.adapter for cell in cells if not cell.model.python})
    benchmarks = sorted({cell.workload.benchmark for cell in cells})
    for kind, name in [
        *(("adapter", name) for name in adapters),
        *(("benchmark", name) for name in benchmarks),
    ]:
        plugin = registry.load("models" if kind == "adapter" else "benchmarks", name)
        needs = [_package(module) for module in plugin.requires]
        yield judged(f"{kind} {name}", ", ".join(needs) or "no extra packages needed", "")


def _package(module: str) -> str:
    name = _MODULES.get(module, module)
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def _models(models: Iterable[Model]) -> Iterator[Check]:
    for model in models:
        what = f"model {model.name}"
        if model.python and not os.access(os.path.expanduser(model.python), os.X_OK):
            message = f"its interpreter {model.python} cannot be executed"
            yield judged(what, message, "create that environment, or fix 'python'", problem=True)
        named = hub_name(model.source) if model.adapter == "transformers" else None
        if named is None:
            continue
        pinned = f"{named[0]}@{model.digest}"
        try:
            yield judged(what, f"cached in {model_folder(pinned)}", "")
        except ValueError as error:
            variable = offline(os.environ)
            if variable:
                fix = f"download it on a machine with a network, or unset {variable}"
                yield judged(what, f"{error}, and {variable} is set", fix, problem=True)
            else:
                yield judged(what, f"{pinned} is not cached yet; it is downloaded when needed", "")


def _store(study: Study) -> Iterator[Check]:
    """Whether the campaign's result store answers."""
    if study.campaign.store_url:
        fix = "results stay in the upload queue; fix the store, or name another under 'results'"
        yield _answers("place", study.result_store, fix, "name another under 'results'", fix)


def _result_cache(study: Study) -> Iterator[Check]:
    """Whether the campaign's result cache answers."""
    if study.result_cache_url:
        fix = "fix it, or name another under 'result_cache'; without it all cells run"

        def opened() -> ResultStore | None:
            cache = study.result_cache()
            return cache.store if cache else None

        if_read_only = "results are taken from it; to put results there, make it writable"
        yield _answers("result cache", opened, fix, fix, if_read_only)


def _notifications(study: Study) -> Iterator[Check]:
    """Whether the campaign's messages have addresses."""
    if study.campaign.notify is None:
        return
    try:
        addresses = read_addresses(study.campaign.notify, study.campaign.folder)
    except CampaignError as error:
        fix = "or name another variable or file under notify.to"
        yield judged("notifications", error.mistakes[0].message, fix, problem=True)
    except MissingExtra as error:
        yield judged("notifications", str(error), "install it, or remove 'notify'", problem=True)
    else:
        yield judged("notifications", f"addresses found: {len(addresses)}", "")


def _answers(
    what: str,
    opened: Callable[[], ResultStore | None],
    if_away: str,
    if_refused: str,
    if_read_only: str,
) -> Check:
    """Whether a store answers; what to do if it is away, refuses, or cannot be written."""
    try:
        store = opened()
        if store is not None:
            store.check()
            try:
                store.check_writable()
            except ResultsError as error:
                message = f"{store.display_url} answers, but is read-only: {error}"
                return judged(what, message, if_read_only, warning=True)
        return judged(what, f"{store.display_url if store else ''} answers", "")
    except StoreUnreachable as error:
        return judged(what, str(error), if_away, warning=True)
    except (BenchfleetError, OSError) as error:
        return judged(what, str(error), if_refused, problem=True)


def _ledger(study: Study) -> Iterator[Check]:
    scheme, rest = split_url(study.url) if study.url else ("sqlite", str(study.layout.ledger))
    if scheme == "sqlite":
        folder = Path(os.path.abspath(rest)).parent
        if kind := network_file_system(folder, mount_table()):
            message = f"{rest} is on a network file system ({kind})"
            fix = "keep it on a local disk with --ledger sqlite:///…, or in PostgreSQL"
            yield judged("ledger", message, fix, problem=True)
            return
    try:
        ledger = study.open_existing_ledger()
        if ledger is None:
            yield judged("ledger", f"{study.ledger_text}, created by the first run", "")
            return
        with closing(ledger):
            running = sum(1 for _ in ledger.cells(states=["running"], parts=True))
    except (LedgerError, BenchfleetError) as error:
        fix = "fix that; nothing runs without a ledger"
        yield judged("ledger", str(error), fix, problem=True)
        return
    yield judged("ledger", f"{study.ledger_text}, {counted(running, 'cell', 'are')} running", "")


def _reports(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> Iterator[Check]:
    """Machines without a report, or with a report under another name."""
    hosts = [""]
    try:
        if arguments.machines is not None:
            inventory = choose_hosts(load_inventory(arguments.machines), arguments.hosts)
            hosts = [host.name for host in inventory.hosts]
        rules = placement_rules(study, host=study.host)
    except BenchfleetError:
        return  # reported by another check
    for one in (*rules.notes, *rules.unreported(cells, hosts)):
        message, _, fix = one.partition(". ")
        yield judged("reports", message, fix or "probe that machine again", warning=True)


def _devices(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> Iterator[Check]:
    if engine := other_machines(study.campaign.engine):
        message = engine.problem or f"those of the engine {engine.name}, which a run connects to"
        fix = "install that" if engine.problem else ""
        yield judged("devices", message, fix, problem=bool(engine.problem))
        return
    pool: Pool | None = None
    missing = ""
    try:
        pool = choose_pool(options.requested_devices(arguments, study.campaign))
    except DeviceError as error:
        missing = str(error)
        fix = "name devices of this machine: --gpus, --cpu-slots"
        yield judged("devices", missing, fix, problem=True)
    if pool is None:
        return
    labels = ", ".join(device.label for device in pool.devices)
    yield judged("devices", f"{counted(pool.slots, 'slot')} on {labels}", "")
    plan = planned(cells, [], pool, ram=available_memory(), cores=cores())
    barred = [row for row in plan.rows if row.impossible]
    for row in barred[:_MAX_LISTED_CELLS]:
        fix = "run it with --machines, on a host with such a device, or exclude it"
        yield judged(f"cell {row.path}", row.impossible, fix, problem=True)
    if len(barred) > _MAX_LISTED_CELLS:
        message = f"{len(barred) - _MAX_LISTED_CELLS} more cells cannot run here"
        yield judged("cells", message, f"benchfleet plan {arguments.campaign}", problem=True)
    for warning in plan.fit.warnings if plan.fit else ():
        yield judged("memory", warning, f"benchfleet plan {arguments.campaign}", warning=True)
    largest = max((row.bytes_on_a_device or 0 for row in plan.rows), default=0)
    if largest:
        yield judged("memory", f"the largest cell needs about {sized(largest)}", "")
