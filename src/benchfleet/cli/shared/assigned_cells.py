"""What one machine is to run, by the ledger's plan or a file of it, and the cells that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.plan import ASSIGNED, Plan, newest, plans
from benchfleet.errors import BenchfleetError
from benchfleet.study import Study

TASKS_FOLDER = Path("tasks")
_MAX_FILE_BYTES = 100_000_000  # bytes


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """What one machine is to run, by fingerprint, in the order of the plan."""

    by: str  # what says so, as people call it
    forms: Mapping[str, str]  # for each cell as declared, the form in which it is run here
    plan: str = ""  # the name of the plan
    known_plans: frozenset[str] = frozenset()  # the plans that the ledger had by then
    machine: str = ""
    campaign: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(self.forms.values())


def tasks_file(host: str) -> str:
    """``<hostname>_tasks.json``."""
    return f"{host}_tasks.json"


def read_tasks(file_name: str, study: Study, *, stays: bool) -> Tasks:
    """What this host is to run: by the file that is named, or else its own, here or in the
    campaign's folder; or by the ledger, where the plan there is newer or no file is here.

    Raises BenchfleetError where there is neither, where the file is another's, and for a host of
    which the plan knows nothing, unless it `stays` for another one.
    """
    known_plans = _plans(study)
    plan, names = newest(known_plans), frozenset(one.name for one in known_plans)
    name = TASKS_FOLDER / tasks_file(study.host)
    folders = [Path(), *([study.campaign.folder] if study.campaign.folder else [])]
    file = (
        Path(file_name)
        if file_name
        else next((f / name for f in folders if (f / name).exists()), None)
    )
    if file is not None:
        tasks = _read(file, study)
        _check(tasks, study)
        if plan is None or tasks.plan == plan.name or tasks.plan not in names:
            return replace(tasks, known_plans=names)
    if plan is None:
        raise BenchfleetError(
            f"{name} not found, and the ledger has no plan; run `benchfleet assign` first, or "
            "name the file"
        )
    if study.host not in (plan.hosts or {}) and not stays:
        hosts = ", ".join(sorted(plan.hosts or {}))
        raise BenchfleetError(
            f"the plan in {study.ledger_text} is for {hosts}, and this is {study.host!r}; "
            "`benchfleet probe` this machine and run `benchfleet assign` again (BENCHFLEET_HOST "
            "names it otherwise)"
        )
    return _from_plan(plan, study, names)


def refreshed(tasks: Tasks, study: Study) -> Tasks:
    """What this host is to run by now: the same, or by a plan that was made since."""
    known_plans = _plans(study)
    plan = newest(known_plans)
    if plan is None or plan.name in tasks.known_plans:
        return tasks
    return _from_plan(plan, study, frozenset(one.name for one in known_plans))


def _plans(study: Study) -> list[Plan]:
    return study.query(lambda ledger: plans(ledger.events(kinds={ASSIGNED})), default=[])


def _from_plan(plan: Plan, study: Study, known_plans: frozenset[str]) -> Tasks:
    by, forms = f"the plan in {study.ledger_text}", plan.of(study.host)
    return Tasks(by=by, forms=forms, plan=plan.name, known_plans=known_plans)


def _read(file: Path, study: Study) -> Tasks:
    """What a file says, of `benchfleet assign` or written by hand."""
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise ValueError("it is too large")
        document = json.loads(file.read_text("utf-8"))
        by_hand = "campaign" not in document
        return Tasks(
            by=str(display_path(file.absolute())),
            forms=_named(document, study)
            if by_hand
            else {str(one["declared"]): str(one["cell"]) for one in document["tasks"]},
            plan=str(document.get("plan", "")),
            machine=str(document["machine"]),
            campaign=study.campaign.name if by_hand else str(document["campaign"]),
        )
    except OSError as error:
        raise BenchfleetError(f"{file} cannot be read: {error.strerror}") from None
    except KeyError as error:
        raise BenchfleetError(f"{file} holds no tasks for a machine: no key {error}") from None
    except (ValueError, LookupError, TypeError) as error:
        raise BenchfleetError(f"{file} holds no tasks for a machine: {error}") from None


def _named(document: Mapping[str, Any], study: Study) -> dict[str, str]:
    """The cells of the experiments that a file names by its own hand's words, in its phase."""
    phase, cells = str(document.get("phase", "")), study.cells()
    mine = [cell for cell in cells if not phase or cell.phase in ("", phase)]
    forms = {}
    for task in document["tasks"]:
        name = str(task["experiment"])
        named_cells = [cell for cell in mine if cell.workload.label == name]
        if not named_cells:
            experiments = ", ".join(dict.fromkeys(cell.workload.label for cell in mine)) or "none"
            of = f" of phase {phase!r}" if phase else ""
            raise ValueError(f"no cell{of} is of the experiment {name!r}; there are {experiments}")
        _check_files(name, task, named_cells)
        forms.update({str(cell.fingerprint): str(cell.fingerprint) for cell in named_cells})
    return forms


def _check_files(name: str, task: Mapping[str, Any], cells: Sequence[Cell]) -> None:
    """Raises ValueError where a task names another config or output than the campaign, which is
    what would be used."""
    for key in ("config", "output"):
        for cell in cells if task.get(key) else ():
            declared = {**cell.workload.params, **cell.workload.outside}.get(key)
            if declared is None or PurePath(declared) != PurePath(task[key]):
                raise ValueError(
                    f"experiment {name!r} has the {key} {task[key]!r}, and {declared or 'none'} in "
                    "the campaign; correct one of them"
                )


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
    cells = [by_name[name] for name in tasks.cells if name in by_name]
    if len(cells) == len(tasks.cells):
        study.record_forms(tasks.forms)
    return cells, len(tasks.cells) - len(cells)


def check_known(tasks: Tasks, study: Study) -> None:
    """Raises BenchfleetError where the campaign's file has not every cell that is given."""
    if unknown_count := assigned_cells(tasks, study)[1]:
        cells = counted(unknown_count, "cell")
        raise BenchfleetError(
            f"{tasks.by} names {cells} that {study.campaign.cli_name} does not have; run "
            "`benchfleet assign` again, with the same file on all machines"
        )
