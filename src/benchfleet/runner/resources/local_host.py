"""The machine that a runner is on, as far as it is known."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Device
from benchfleet.domain.slots import BEGAN
from benchfleet.engines.processes import owner, process_space
from benchfleet.runner.resources.autoscaler import Measure, measure_nothing
from benchfleet.runner.resources.shapes import Pool


@dataclass(frozen=True, kw_only=True)
class LocalHost:
    """The machine that a runner is on."""

    machine: str = ""  # how it calls itself
    process: str = ""  # what names the runner's process for ever
    space: str = ""  # the boot and the PID namespace in which that name holds
    host: str = ""  # what results call it; "": as it calls itself
    job: str = ""  # the batch job that the runner is part of
    folder: str = ""  # what names the results folder that it publishes to
    pool: Pool | None = None  # its devices, where slots may be opened here
    gpus: Callable[[], Sequence[Device]] = tuple  # those that are here; raises DeviceError
    measure: Measure = measure_nothing  # what is free here, asked without waiting for it
    provenance: Callable[[], Mapping[str, Any]] = dict  # its part of a result's provenance

    def began(self, runner: RunnerId) -> Event:
        """The event that makes a runner on this machine known to the others."""
        data = {"runner": runner, "machine": self.machine, "process": self.process}
        data |= {"space": self.space, "host": self.host, "folder": self.folder}
        return Event(kind=BEGAN, data={**data, "job": self.job} if self.job else data)


def this_host(*, host: str, folder: str) -> LocalHost:
    """This machine, where this process publishes to the results folder of that id."""
    return LocalHost(
        machine=socket.gethostname(),
        process=owner(os.getpid()),
        space=process_space(),
        host=host,
        folder=folder,
    )
