"""The facts of a machine in one line: ``python -m benchfleet.machines.facts FOLDER``.

Another benchfleet asks this over SSH, so nothing else may come out on stdout; what a login script
says before it is skipped by `parse_facts`.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import benchfleet
from benchfleet.domain.resource import Device
from benchfleet.errors import DeviceError, NoGpu, ProtocolError
from benchfleet.machines.devices import cores
from benchfleet.machines.nvml import open_nvml
from benchfleet.machines.provenance import driver_version
from benchfleet.machines.wheel import environment_name

# What a host's interpreter is given after -c: no module of the folder that it starts in is taken.
ASK = "import sys; sys.path = [p for p in sys.path if p]; "
ASK += "from benchfleet.machines.facts import main; main()"
_MARK = "benchfleet_facts"
_PROBE_BYTES = 2**16  # that are written where benchfleet keeps what it needs
_FORMAT = 1
_PACKAGES = ("torch", "transformers", "lm_eval", "inspect_ai", "rouge", "bitsandbytes")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU, how it is, and who is on it."""

    index: int
    name: str
    memory: int  # bytes
    uuid: str
    free: int  # bytes
    processes: tuple[str, ...] = ()  # such as "me: python3 (1234)"
    fault: str = ""  # what is wrong with it as hardware

    @property
    def device(self) -> Device:
        """As a pool takes it."""
        return Device(
            kind="gpu", index=self.index, name=self.name, memory=self.memory, uuid=self.uuid
        )


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One machine, seen by a benchfleet on it."""

    benchfleet: str  # its version
    environment: str  # its version and content, as `environment_name` has it
    python: str  # version
    executable: str
    hostname: str
    platform: str
    cores: int  # that a process may use
    memory: int  # bytes
    disk_free: int  # bytes where FOLDER is or will be
    folder_problem: str = ""  # why nothing can be written there
    gpus: tuple[Gpu, ...] = ()
    no_gpu: str = ""  # why it has none
    gpu_problem: str = ""  # why those that it may have cannot be asked
    driver: str = ""  # NVIDIA's
    packages: Mapping[str, str] = field(default_factory=dict)  # those installed, with versions
    rsync: bool = False
    clock: float  # seconds since 1970, when it was asked


def facts(folder: str) -> Facts:
    """The facts of this machine; `folder` is where benchfleet keeps what it needs."""
    import psutil

    gpu_list: tuple[Gpu, ...] = ()
    absent = problem = ""
    existing = _existing(Path(os.path.expanduser(folder)))
    try:
        gpu_list = gpus()
    except NoGpu as error:
        absent = str(error)
    except DeviceError as error:
        problem = str(error)
    return Facts(
        benchfleet=benchfleet.__version__,
        environment=environment_name(),
        python=platform.python_version(),
        executable=sys.executable,
        hostname=socket.gethostname(),
        platform=platform.platform(),
        cores=cores(),
        memory=int(psutil.virtual_memory().total),
        disk_free=shutil.disk_usage(existing).free,
        folder_problem=_write_problem(existing),
        gpus=gpu_list,
        no_gpu=absent,
        gpu_problem=problem,
        driver=driver_version(),
        packages=_versions(),
        rsync=shutil.which("rsync") is not None,
        clock=time.time(),
    )


def parse_facts(text: str) -> Facts:
    """The facts in what a host said, after whatever its login scripts said.

    Raises ProtocolError where there are none.
    """
    for line in reversed(text.splitlines()):
        if _MARK in line and (data := _object(line)) and data.pop(_MARK, None) == _FORMAT:
            try:
                return _read(data)
            except (KeyError, TypeError) as error:
                message = f"the facts of the host are incomplete: {error}"
                raise ProtocolError(message) from None
    last = text.strip().splitlines()[-1:] or ["nothing"]
    raise ProtocolError(f"the host tells nothing of itself; it said {last[0][:200]!r}")


def _read(data: Mapping[str, Any]) -> Facts:
    """The facts; what only another version knows of is left out."""
    gpu_list = [
        Gpu(**{**_known_fields(Gpu, one), "processes": tuple(one["processes"])})
        for one in data["gpus"]
    ]
    return Facts(**{**_known_fields(Facts, data), "gpus": tuple(gpu_list)})


def _known_fields(kind: type[Facts] | type[Gpu], data: Mapping[str, Any]) -> dict[str, Any]:
    return {one.name: data[one.name] for one in fields(kind) if one.name in data}


def _object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line[line.index("{") :])
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def gpus() -> tuple[Gpu, ...]:
    """The GPUs with their free memory, processes and faults. Raises DeviceError."""
    with open_nvml() as nvml:
        return tuple(
            Gpu(
                index=gpu.index,
                name=gpu.name,
                memory=gpu.memory,
                uuid=gpu.uuid,
                free=gpu.free,
                processes=tuple(map(str, gpu.processes)),
                fault=gpu.fault,
            )
            for gpu in nvml.gpus()
        )


def _existing(folder: Path) -> Path:
    """The folder, or the one in which it would be made."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def _write_problem(folder: Path) -> str:
    """Why a file of some size cannot be written in the folder; ``""`` if it can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror}"
    return ""


def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def main(words: Sequence[str] | None = None) -> int:
    """Print the facts of this machine; the first word is the folder."""
    folder = next(iter(sys.argv[1:] if words is None else words), "~")
    print(json.dumps({_MARK: _FORMAT, **asdict(facts(folder))}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
