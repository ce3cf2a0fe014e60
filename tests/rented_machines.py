"""A simulated Vast.ai whose instances are real: each is an sshd of its own on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from benchfleet.machines.nvml import RECORDING
from benchfleet.providers.base import GpuOffer
from benchfleet.testing.simulated_cloud import Cloud, CloudInstance
from benchfleet.testing.simulated_http import ApiServer
from benchfleet.testing.simulated_vast import VastApi
from sshd import Sshd

KEY = "k3yk3yk3yk3y"


def need_curl() -> None:
    """Skip the test where there is no curl, and fail it in CI."""
    if shutil.which("curl") is None:
        reason = "no curl here: the dead-man timer of a rented machine needs it"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


class RealCloud:
    """The cloud, its API at `url`, and the machines behind it."""

    def __init__(self, folder: Callable[[], Path], key: str = KEY) -> None:
        need_curl()
        self._folder = folder
        self.sshds: dict[str, Sshd] = {}
        self.lets_in = True  # False: new machines refuse every key
        self.patience = 600  # seconds of the dead-man timers
        self.boot_s = 0.0  # of new machines, at least
        self.environment: dict[str, str] = {}  # of what is started on new machines
        self._timers: dict[str, subprocess.Popen[bytes]] = {}
        self.cloud = Cloud(now=time.time(), offers=[_offer(11, 400_000), _offer(12, 300_000)])
        self.api = VastApi(
            self.cloud, {key: "me"}, clock=time.time, created=self._created, ended=self._ended
        )
        self._server = ApiServer(self.api)
        self.url = self._server.url

    def _created(self, one: CloudInstance, body: Mapping[str, Any]) -> None:
        time.sleep(self.boot_s)
        folder = self._folder()
        variables = {RECORDING: str(_gpu(folder, one)), **self.environment}
        sshd = Sshd(folder, path=_path(folder), environment=variables)
        if self.lets_in:
            key = next(line for line in body["onstart"].splitlines() if "authorized_keys" in line)
            (sshd.folder / "authorized_keys").write_text(key.split("'")[1] + "\n")
        sshd.start()
        environment = {
            **os.environ,
            "HOME": str(sshd.folder / "home"),
            "CONTAINER_ID": one.id,
            "CONTAINER_API_KEY": one.key,
            "BENCHFLEET_TIMEOUT": str(self.patience),
            "BENCHFLEET_TICK": "1",
        }
        self._timers[one.id] = subprocess.Popen(
            ["sh", "-c", f"{body['onstart']}\nwait"], env=environment, start_new_session=True
        )
        one.address, one.port = "127.0.0.1", sshd.port
        self.sshds[one.id] = sshd

    def _ended(self, one: CloudInstance) -> None:
        if one.id in self.sshds:
            self.sshds.pop(one.id).kill()
            self._end_timer(one.id)

    def _end_timer(self, id: str) -> None:
        timer = self._timers.pop(id)
        with suppress(ProcessLookupError):
            os.killpg(timer.pid, signal.SIGKILL)
        timer.wait()

    def close(self) -> None:
        """End everything."""
        self._server.close()
        for sshd in self.sshds.values():
            sshd.kill()
        for id in list(self._timers):
            self._end_timer(id)


@contextmanager
def real_cloud(folder: Callable[[], Path], key: str = KEY) -> Iterator[RealCloud]:
    """The cloud for as long as the block runs."""
    cloud = RealCloud(folder, key)
    try:
        yield cloud
    finally:
        cloud.close()


def _path(folder: Path) -> str:
    return f"{folder}/bin:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"


def _gpu(folder: Path, one: CloudInstance) -> Path:
    """Stand-ins for the driver of the GPU that was rented: ``nvidia-smi``, and a recording."""
    name, uuid, memory = f"NVIDIA GeForce {one.offer.gpu}", f"GPU-{one.id}", one.offer.vram
    smi = folder / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(f"#!/bin/sh\necho '{name}, {memory >> 20}, 3, 560.35.03, {uuid}'\n")
    smi.chmod(0o755)
    gpu = {"index": 0, "name": name, "uuid": uuid, "memory": memory, "free": memory - (3 << 20)}
    recording = folder / "gpus.json"
    recording.write_text(json.dumps({"driver": "560.35.03", "gpus": [gpu]}))
    return recording


def _offer(id: int, price: int) -> GpuOffer:
    return GpuOffer(
        provider="vast", id=str(id), machine=f"m{id}", gpu="RTX 4090", count=1, vram=24 << 30,
        price=price, region="Sweden", reliability=0.991,
    )  # fmt: skip
