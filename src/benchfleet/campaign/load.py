"""A campaign file, read and checked: `load_campaign` is the one way in."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from benchfleet.domain.budget import Budget
from benchfleet.domain.campaign_record import CampaignRecord
from benchfleet.domain.host import AUTO
from benchfleet.domain.resource import DEFAULT_ENDPOINT_SLOTS
from benchfleet.errors import CampaignError
from benchfleet.policies.base import DEFAULT

from . import defaults, eligibility
from .base import Campaign, Machine, results_folder
from .defaults import read_defaults
from .eligibility import read_eligibility
from .engines import ENGINE, read_engine
from .entry import Entry, Mistakes
from .hosts import read_gpus
from .matrices import BELONG, MATRIX, MatrixReader
from .notify import NOTIFY, read_notify
from .phases import PHASES, read_phases
from .plugins import plugin as opened_plugin
from .race import RACE, in_rounds, read_race
from .runners import RUNNERS, read_runners
from .schema_types import (
    MONEY,
    NAME,
    PRICE,
    SLOTS,
    Shape,
    doc,
    listing,
    mapping,
    plugin,
    whole,
)
from .source import Flaw, Source
from .stores import STORES, read_result_cache, read_results
from .suites import SUITES, read_suites
from .toml_reader import read_toml
from .yaml_reader import read_yaml

__all__ = ["Campaign", "load_campaign", "read_campaign"]

MACHINE: Mapping[str, Shape] = {
    "gpus": doc(listing(whole(0)), "the GPUs to use, as --gpus"),
    "cpu_slots": doc(SLOTS, "slots without a GPU, or auto, as --cpu-slots"),
    "max_concurrent_runs": doc(whole(), "cells at a time, as --max-concurrent-runs"),
    "price": doc(PRICE, "of an hour of this machine, such as 0.39 EUR/h, or of a GPU, as $1/gpu/h"),
    "slots_per_gpu": doc(SLOTS, "slots on each GPU, or auto, as --slots-per-gpu"),
    "endpoint_slots": doc(whole(1), "cells at a time that ask one server elsewhere (1)"),
}
KEYS: Mapping[str, Shape] = {
    "campaign": doc(NAME, "names the results folder, and the campaign in its ledger"),
    **STORES,
    **MACHINE,
    "budget": doc(MONEY, "no cell begins once this is spent, such as 20 USD"),
    "placement": doc(plugin("policies"), f"which waiting cells go first ({DEFAULT})"),
    "engine": doc(ENGINE, "what opens the slots, as --engine (this machine, and hosts over SSH)"),
    "eligibility": eligibility.SHAPE,
    "defaults": doc(mapping(defaults.KEYS), "what holds where an axis says nothing else"),
    "matrix": doc(mapping(MATRIX), "what to run"),
    "phases": PHASES,
    "runners": RUNNERS,
    "suites": SUITES,
    "notify": NOTIFY,
    "race": RACE,
}
REQUIRED = ("campaign",)
DRAFT_NAME = "campaign.yaml"  # of the file that `init` writes, and that is the default
CAMPAIGN_FILE = "campaign file"
MAX_BYTES = 10_000_000
Reader = Callable[[str, Path], Source]


def _python(text: str, file: Path) -> Source:
    from .python_reader import read_python  # seldom needed, and slow to import

    return read_python(text, file)


_READERS: Mapping[str, Reader] = {
    ".yaml": lambda text, _: read_yaml(text),
    ".yml": lambda text, _: read_yaml(text),
    ".toml": lambda text, _: read_toml(text),
    ".py": _python,
}


def load_campaign(
    path: str | Path, *, check_machine: Callable[[Machine], str] = lambda _: ""
) -> Campaign:
    """The campaign in the file. Raises `CampaignError` with every mistake in it at once.

    `check_machine` says what is wrong with the devices that the file asks for; it is called for a
    file with other mistakes, since devices may be absent where a campaign is only read.
    """
    file = Path(os.path.abspath(path))
    source = read_source(file, _READERS, CAMPAIGN_FILE)
    return read_campaign(source, file=file, file_label=str(path), check_machine=check_machine)


def read_campaign(
    source: Source,
    *,
    file: Path,
    file_label: str,
    results: Path | None = None,
    check_machine: Callable[[Machine], str] = lambda _: "",
) -> Campaign:
    """The campaign that plain data say, wherever they come from.

    Relative paths start at the folder of `file`; `file_label` names the file in mistakes.
    `results` overrides the campaign's own folder.
    Raises `CampaignError` with every mistake at once.
    """
    mistakes = Mistakes(source)
    root = Entry(source.data, (), mistakes)
    if source.data is None and not source.flaws:
        root.wrong("is empty; a campaign begins with 'campaign: NAME' and a 'matrix'")
    campaign = _campaign(root, file) if isinstance(source.data, dict) else None
    if campaign is None:
        root.pairs("a mapping that begins with 'campaign: NAME'")
    if campaign is None or mistakes.listed():
        _check_machine(root, check_machine)
        name, folder = (campaign.name, campaign.results) if campaign else ("", None)
        raise CampaignError(file_label, mistakes.listed(), campaign=name, results=folder)
    return campaign if results is None else replace(campaign, results=results)


def read_source(file: Path, readers: Mapping[str, Reader], kind: str) -> Source:
    """The data in the file, by the reader for its suffix; messages call the file `kind`."""
    reader = readers.get(file.suffix.lower())
    try:
        if file.is_dir():
            problem = f"is a folder; name the {kind} in it"
            if (file / "ledger.db").is_file():
                problem = (
                    f"is a results folder; name its {kind}, or --ledger sqlite:///{file}/ledger.db"
                )
        elif not file.exists():
            problem = f"file not found{_near(file, readers) or _how_to_make(file, kind)}"
        elif reader is None:
            problem = f"unknown suffix for this {kind}; use {', '.join(readers)}"
        elif not file.is_file():
            problem = "is not a regular file"
        elif file.stat().st_size > MAX_BYTES:
            problem = f"is larger than {MAX_BYTES // 1_000_000} MB; is it a {kind}?"
        else:
            return reader(file.read_text(encoding="utf-8-sig"), file)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return Source(flaws=(Flaw(message="is not UTF-8 text; save it as UTF-8", line=line),))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        problem = f"cannot be read: {reason or error}"
    return Source(flaws=(Flaw(message=problem),))


def _near(file: Path, suffixes: Iterable[str]) -> str:
    """``; did you mean 'study.yaml'?``, if its folder has such a file with one of the suffixes."""
    try:
        names = [one.name for one in file.parent.iterdir() if one.suffix.lower() in suffixes]
    except (OSError, ValueError):
        return ""
    near = get_close_matches(file.name, names, n=1, cutoff=0.75)
    return f"; did you mean {near[0]!r}?" if near else ""


def _how_to_make(file: Path, kind: str) -> str:
    """How a campaign file that is not there is made; of the default one, that it is the default."""
    if kind != CAMPAIGN_FILE:
        return ""
    if file.name == DRAFT_NAME:
        return f"; it is the default: name your {kind}, or write one with: benchfleet init"
    file = file if file.suffix else file.with_suffix(".yaml")
    with contextlib.suppress(ValueError):  # it is not below the current folder
        file = file.relative_to(Path.cwd())
    return f"; write one with: benchfleet init {shlex.quote(str(file))}"


def _campaign(root: Entry, file: Path) -> Campaign | None:
    """What the file says, or None where it holds a mistake that leaves no campaign to speak of."""
    fields = root.fields(KEYS, elsewhere=BELONG)
    if fields["campaign"].absent:
        fields["campaign"].wrong("the campaign needs a name, such as campaign: my-study")
    name = fields["campaign"].name()
    base, store_url = read_results(fields["results"])
    result_cache = read_result_cache(fields["result_cache"])
    machine = read_machine(*(fields[key] for key in MACHINE))
    money = fields["budget"].money()
    placement = fields["placement"].text(DEFAULT)
    opened_plugin("policies", placement, fields["placement"])
    engine = read_engine(fields["engine"])
    rules_for_machines = read_eligibility(fields["eligibility"])
    default_settings = read_defaults(fields["defaults"])
    if fields["matrix"].absent and fields["phases"].absent:
        fields["matrix"].wrong("is missing; it says what to run: models, configs and benchmarks")
        return None
    reader = MatrixReader(default_settings, fields["defaults"], file.parent)
    matrix, phases = read_phases(fields["matrix"], fields["phases"], reader)
    cells = matrix.expand() if not fields["runners"].absent and root.right else ()
    runners = read_runners(fields["runners"], cells)
    workloads = [work for part in (matrix, *matrix.parts) for work in part.workloads]
    suites = read_suites(fields["suites"], workloads)
    notify = read_notify(fields["notify"])
    race = read_race(fields["race"], matrix)
    if not name:
        return None
    variants = tuple(matrix.variants)
    return Campaign(
        name=name,
        file=file,
        results=results_folder(file.parent, base, name),
        matrix=in_rounds(matrix) if race else matrix,
        phases=phases,
        runners=runners,
        machine=machine,
        engine=engine,
        placement=placement,
        eligibility=rules_for_machines,
        budget=Budget(amount=money[0], currency=money[1]) if money else None,
        store_url=store_url,
        result_cache=result_cache,
        variants=variants,
        suites=suites,
        notify=notify,
        race=race,
        series=reader.series,
        record=CampaignRecord(
            name=name,
            results=store_url,
            placement=placement,
            phases=phases,
            runners=runners,
            rules=None if fields["eligibility"].absent else rules_for_machines.rules,
            variants=variants,
            suites=suites,
            notify=notify,
            race=race,
            result_cache=result_cache,
        ),
    )


def _check_machine(root: Entry, check: Callable[[Machine], str]) -> None:
    """Note what is wrong with the GPUs that the file asks for."""
    entries = [root.inside(key) for key in MACHINE]
    gpus = root.inside("gpus")
    readable = not gpus.absent and all(entry.right for entry in entries)
    if readable and (message := check(read_machine(*entries))):
        gpus.wrong(message)


def read_machine(
    gpus: Entry,
    cpu_slots: Entry,
    max_concurrent_runs: Entry,
    price: Entry,
    slots_per_gpu: Entry,
    endpoint_slots: Entry,
) -> Machine:
    """What is asked of this machine, under the keys of `MACHINE`."""
    return Machine(
        gpus=read_gpus(gpus),
        gpus_origin=f"line {gpus.line}, gpus" if gpus.line else "gpus",
        cpu_slots=None if cpu_slots.absent else cpu_slots.slots(AUTO),
        max_concurrent_runs=None if max_concurrent_runs.absent else max_concurrent_runs.whole(1),
        price=price.price(),
        slots_per_gpu=None if slots_per_gpu.absent else slots_per_gpu.slots(AUTO),
        endpoint_slots=endpoint_slots.whole(DEFAULT_ENDPOINT_SLOTS),
    )
