"""What one machine is to run, by the ledger's plan or a file of it, and the cells that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.plan import ASSIGNED, Plan, newest, plans
from benchfleet.errors import BenchfleetError
from benchfleet.study import Study

FOLDER = Path("tasks")
_LARGEST = 100_000_000  # bytes


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """What one machine is to run, by fingerprint, in the order of the plan."""

    by: str  # what says so, as people call it
    forms: Mapping[str, str]  # for each cell as declared, the form in which it is run here
    plan: str = ""  # the name of the plan
    known: frozenset[str] = frozenset()  # the plans that the ledger had by then
    machine: str = ""
    campaign: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(self.forms.values())


def tasks_file(host: str) -> str:
    """``<hostname>_tasks.json``."""
    return f"{host}_tasks.json"


def read_tasks(place: str, study: Study, *, stays: bool) -> Tasks:
    """What this host is to run: by the file that is named, or else its own, here or in the
    campaign's folder; or by the ledger, where the plan there is newer or no file is here.

    Raises BenchfleetError where there is neither, where the file is another's, and for a host of
    which the plan knows nothing, unless it `stays` for another one.
    """
    told = _plans(study)
    plan, names = newest(told), frozenset(one.name for one in told)
    name = FOLDER / tasks_file(study.host)
    folders = [Path(), *([study.campaign.folder] if study.campaign.folder else [])]
    file = Path(place) if place else next((f / name for f in folders if (f / name).exists()), None)
    if file is not None:
        found = _read(file, study)
        _check(found, study)
        if plan is None or found.plan == plan.name or found.plan not in names:
            return replace(found, known=names)
    if plan is None:
        raise BenchfleetError(
            f"there is no {name}, and the ledger holds no plan; run `benchfleet assign` first, or "
            "name the file"
        )
    if study.host not in (plan.hosts or {}) and not stays:
        hosts = ", ".join(sorted(plan.hosts or {}))
        raise BenchfleetError(
            f"the plan in {study.ledger_text} is for {hosts}, and this is {study.host!r}; "
            "`benchfleet probe` this machine and run `benchfleet assign` again (BENCHFLEET_HOST "
            "names it otherwise)"
        )
    return _of(plan, study, names)


def newer(tasks: Tasks, study: Study) -> Tasks:
    """What this host is to run by now: the same, or by a plan that was made since."""
    told = _plans(study)
    plan = newest(told)
    if plan is None or plan.name in tasks.known:
        return tasks
    return _of(plan, study, frozenset(one.name for one in told))


def _plans(study: Study) -> list[Plan]:
    return study.query(lambda ledger: plans(ledger.events(kinds={ASSIGNED})), default=[])


def _of(plan: Plan, study: Study, known: frozenset[str]) -> Tasks:
    by, forms = f"the plan in {study.ledger_text}", plan.of(study.host)
    return Tasks(by=by, forms=forms, plan=plan.name, known=known)


def _read(file: Path, study: Study) -> Tasks:
    """What a file says, of `benchfleet assign` or written by hand."""
    try:
        if file.stat().st_size > _LARGEST:
            raise ValueError("it is too large")
        told = json.loads(file.read_text("utf-8"))
        by_hand = "campaign" not in told
        return Tasks(
            by=str(display_path(file.absolute())),
            forms=_named(told, study)
            if by_hand
            else {str(one["declared"]): str(one["cell"]) for one in told["tasks"]},
            plan=str(told.get("plan", "")),
            machine=str(told["machine"]),
            campaign=study.campaign.name if by_hand else str(told["campaign"]),
        )
    except OSError as error:
        raise BenchfleetError(f"{file} cannot be read: {error.strerror}") from None
    except KeyError as error:
        raise BenchfleetError(f"{file} holds no tasks for a machine: no key {error}") from None
    except (ValueError, LookupError, TypeError) as error:
        raise BenchfleetError(f"{file} holds no tasks for a machine: {error}") from None


def _named(told: Mapping[str, Any], study: Study) -> dict[str, str]:
    """The cells of the experiments that a file names by its own hand's words, in its phase."""
    phase, cells = str(told.get("phase", "")), study.cells()
    mine = [cell for cell in cells if not phase or cell.phase in ("", phase)]
    found = {}
    for task in told["tasks"]:
        name = str(task["experiment"])
        meant = [str(cell.fingerprint) for cell in mine if cell.workload.label == name]
        if not meant:
            there = ", ".join(dict.fromkeys(cell.workload.label for cell in mine)) or "none"
            of = f" of phase {phase!r}" if phase else ""
            raise ValueError(f"no cell{of} is of the experiment {name!r}; there are {there}")
        found.update({fingerprint: fingerprint for fingerprint in meant})
    return found


def _check(tasks: Tasks, study: Study) -> None:
    if tasks.machine != study.host:
        raise BenchfleetError(
            f"{tasks.by} is for {tasks.machine!r}, and this is {study.host!r} (BENCHFLEET_HOST "
            "names it otherwise)"
        )
    if tasks.campaign != study.campaign.name:
        raise BenchfleetError(
            f"{tasks.by} is of campaign {tasks.campaign!r}, not {study.campaign.name!r}"
        )


def assigned_cells(tasks: Tasks, study: Study) -> tuple[list[Cell], int]:
    """The campaign's cells that the tasks name, in their order and forms, and how many it does not
    have. What the ledger did not know of the forms is recorded there."""
    by_name = {
        str(form.fingerprint): form
        for cell in study.campaign.matrix.expand()
        if cell.fingerprint in tasks.forms
        for _, form in study.campaign.matrix.forms(cell)
    }
    found = [by_name[name] for name in tasks.cells if name in by_name]
    if len(found) == len(tasks.cells):
        study.record_forms(tasks.forms)
    return found, len(tasks.cells) - len(found)


def check_known(tasks: Tasks, study: Study) -> None:
    """Raises BenchfleetError where the campaign's file has not every cell that is given."""
    if gone := assigned_cells(tasks, study)[1]:
        cells = counted(gone, "cell")
        raise BenchfleetError(
            f"{tasks.by} names {cells} that {study.campaign.cli_name} does not have; run "
            "`benchfleet assign` again, with the same file on all machines"
        )
