"""A campaign as the rest of benchfleet sees it: read, checked and ready to run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchfleet.domain.budget import Budget
from benchfleet.domain.campaign_record import CampaignRecord
from benchfleet.domain.eligibility import Eligibility
from benchfleet.domain.eligibility import default_eligibility as usual_rules
from benchfleet.domain.engine_choice import EngineChoice
from benchfleet.domain.host_filter import HostFilter
from benchfleet.domain.matrix import Matrix
from benchfleet.domain.names import FOLDER_ID, path_part
from benchfleet.domain.notification import NotificationSettings
from benchfleet.domain.phase import Phase
from benchfleet.domain.race import RaceSettings
from benchfleet.domain.resource import DEFAULT_ENDPOINT_SLOTS
from benchfleet.domain.suite import Suite
from benchfleet.domain.usage import Price
from benchfleet.policies.base import DEFAULT

from .series import CheckpointSeries

RESULTS = "./benchmark_results"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the campaign asks of the machine that runs it; None leaves it to the command line."""

    gpus: tuple[int, ...] | None = None
    gpus_origin: str = field(default="", compare=False)  # where the file names them
    cpu_slots: int | None = None  # or AUTO
    max_concurrent_runs: int | None = None
    price: Price | None = None  # of it, or of each of its GPUs
    slots_per_gpu: int | None = None  # or AUTO
    endpoint_slots: int = DEFAULT_ENDPOINT_SLOTS


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """One named study."""

    name: str
    file: Path | None  # where it was read from, absolute; None if it comes from a ledger
    results: Path  # the folder of this campaign alone, absolute
    results_option: str = field(default="", compare=False)  # --results, as it was given
    matrix: Matrix
    phases: tuple[Phase, ...] = ()
    runners: Mapping[str, HostFilter] = field(default_factory=dict)  # what each host may run
    machine: Machine = field(default_factory=Machine)
    engine: EngineChoice | None = None  # where its cells run; None: on this machine, or over SSH
    budget: Budget | None = None  # what it may cost
    store_url: str = ""  # where results are uploaded to; "" for the results folder only
    result_cache: str = ""  # the URL of its result cache; "": that of the environment
    placement: str = DEFAULT  # which waiting cells go first, by the policy's name
    eligibility: Eligibility = field(default_factory=usual_rules)  # what machines are held against
    variants: tuple[str, ...] = ()  # names of the models that stand in for others
    suites: tuple[Suite, ...] = ()  # of benchmarks with one score
    notify: NotificationSettings | None = None  # what it sends messages about
    race: RaceSettings | None = None  # what stops early; None: every cell runs
    series: tuple[CheckpointSeries, ...] = ()  # of checkpoints, which may grow
    record: CampaignRecord | None = None  # for hosts without its file; None where there is no file

    @property
    def folder(self) -> Path | None:
        """Where its file lies; None if the campaign comes from a ledger."""
        return self.file.parent if self.file else None

    @property
    def cli_name(self) -> str:
        """How it is named on a command line."""
        return str(self.file or "CAMPAIGN")

    @property
    def cli_arguments(self) -> str:
        """How a command to be copied names it, with the folder of results that was chosen."""
        chosen = f" --results {shlex.quote(self.results_option)}" if self.results_option else ""
        return f"{shlex.quote(str(self.file)) if self.file else self.cli_name}{chosen}"

    def with_results(self, base: str | Path | None) -> Campaign:
        """The same campaign with its folder under `base`, which is relative to the current one;
        None leaves it where it is."""
        if base is None:
            return self
        folder = results_folder(Path.cwd(), base, self.name)
        return replace(self, results=folder, results_option=str(base))


def results_folder(start: Path, base: str | Path, name: str) -> Path:
    """The folder of the campaign `name` under `base`, itself taken from `start`; or `base`, where
    that is the campaign's own folder and was used by a run."""
    folder, part = absolute(start, base), path_part(name)
    return folder if folder.name == part and (folder / FOLDER_ID).exists() else folder / part


def absolute(start: Path, path: str | Path) -> Path:
    """`path` seen from the folder `start`; ``~`` is the home, and symlinks stay as they are."""
    return Path(os.path.abspath(start / os.path.expanduser(path)))
