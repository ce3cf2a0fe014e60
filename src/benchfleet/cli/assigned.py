"""The tasks of a machine as `benchfleet assign` wrote them, and the cells that they name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchfleet.bench import Bench
from benchfleet.domain.cell import Cell
from benchfleet.errors import BenchfleetError

FOLDER = Path("tasks")
_LARGEST = 100_000_000  # bytes


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """What one machine is to run, by fingerprint, in the order of the plan."""

    file: Path
    forms: dict[str, str]  # for each cell as declared, the form in which it is run here

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(self.forms.values())


def tasks_file(host: str) -> str:
    """``<hostname>_tasks.json``."""
    return f"{host}_tasks.json"


def read_tasks(place: str, bench: Bench) -> Tasks:
    """The tasks in the file that is named, or else those of this host, here or in the campaign's
    folder. Raises BenchfleetError where there are none, or they are another's."""
    name = FOLDER / tasks_file(bench.host)
    folders = [Path(), *([bench.folder] if bench.folder else [])]
    file = Path(place) if place else next((f / name for f in folders if (f / name).exists()), name)
    try:
        if file.stat().st_size > _LARGEST:
            raise ValueError("it is too large")
        told = json.loads(file.read_text("utf-8"))
        machine, campaign = str(told["machine"]), str(told["campaign"])
        forms = {str(one["declared"]): str(one["cell"]) for one in told["tasks"]}
    except OSError as error:
        hint = "" if place else "; run `benchfleet assign` first, or name the file"
        raise BenchfleetError(f"{file} cannot be read: {error.strerror}{hint}") from None
    except (ValueError, LookupError, TypeError) as error:
        raise BenchfleetError(f"{file} holds no tasks of `benchfleet assign`: {error}") from None
    if machine != bench.host:
        raise BenchfleetError(
            f"{file} is for {machine!r}, and this is {bench.host!r} (BENCHFLEET_HOST names it "
            "otherwise)"
        )
    if campaign != bench.campaign.name:
        raise BenchfleetError(f"{file} is of campaign {campaign!r}, not {bench.campaign.name!r}")
    return Tasks(file=file, forms=forms)


def assigned_cells(tasks: Tasks, bench: Bench) -> list[Cell]:
    """The campaign's cells that the tasks name, in their order and forms; what the ledger did not
    know of the forms is recorded there. Raises BenchfleetError for one that the campaign has no
    more."""
    by_name = {
        str(form.fingerprint): form
        for cell in bench.campaign.matrix.expand()
        if cell.fingerprint in tasks.forms
        for _, form in bench.campaign.matrix.forms(cell)
    }
    if gone := [name for name in tasks.cells if name not in by_name]:
        raise BenchfleetError(
            f"{tasks.file} names {len(gone)} cells that the campaign has no more; run "
            "`benchfleet assign` again"
        )
    bench.assign(tasks.forms)
    return [by_name[name] for name in tasks.cells]
