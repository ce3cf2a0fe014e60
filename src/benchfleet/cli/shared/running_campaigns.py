"""The only campaign file of a folder, and the active runners of a campaign."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.event import Event
from benchfleet.domain.slots import BEGAN, ENDED
from benchfleet.engines.processes import owner
from benchfleet.errors import BenchfleetError

_CAMPAIGN = re.compile(r"^[\"']?campaign[\"']?\s*[:=]", re.MULTILINE)
_MAX_READ_CHARACTERS = 2**20  # characters; a campaign says its name early


@dataclass(frozen=True, kw_only=True)
class RunningRunner:
    """A runner with a start event and no end event."""

    id: str
    machine: str
    process: str
    began: float  # seconds since the epoch by the ledger's clock

    @property
    def is_here(self) -> bool:
        """Whether it was started on this machine."""
        return self.machine == socket.gethostname()

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended, as far as this machine can see."""
        if not self.is_here or "@" not in self.process:
            return False
        return owner(int(self.process.partition("@")[0])) != self.process


RUNNER_EVENTS = (BEGAN, ENDED)  # the kinds of events that tell which runners are


def runners(events: Iterable[Event]) -> list[RunningRunner]:
    """The runners that may be at work, oldest first."""
    by_id: dict[str, RunningRunner] = {}
    for event in events:
        name = event.data.get("runner", "")
        if event.kind == BEGAN:
            machine, process = event.data["machine"], event.data["process"]
            by_id[name] = RunningRunner(id=name, machine=machine, process=process, began=event.at)
        elif event.kind == ENDED:
            by_id.pop(name, None)
    return [one for one in by_id.values() if not one.is_gone]


def only_campaign(folder: Path) -> Path:
    """The one campaign file of a folder. Raises BenchfleetError where there is none or are more."""
    files = sorted(file for kind in ("yaml", "yml", "toml") for file in folder.glob(f"*.{kind}"))
    campaigns = [file.relative_to(folder) for file in files if _is_campaign(file)]
    if len(campaigns) == 1:
        return campaigns[0]
    if not campaigns:
        raise BenchfleetError("no campaign file in this folder; name one, such as study.yaml")
    raise BenchfleetError(f"which campaign? name one of {', '.join(map(str, campaigns))}")


def _is_campaign(file: Path) -> bool:
    try:
        with open(file, encoding="utf-8") as opened:
            return _CAMPAIGN.search(opened.read(_MAX_READ_CHARACTERS)) is not None
    except (OSError, ValueError):
        return False
