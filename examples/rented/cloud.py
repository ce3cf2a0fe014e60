"""A simulated Vast.ai with real machines: each instance is an sshd of its own on this computer.

`python cloud.py` serves until Ctrl-C, and writes machines.yaml, an inventory that rents there. If
started again, it keeps the address in machines.yaml. Its machines end with it, also by kill -9.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchfleet.providers.base import GpuOffer
from benchfleet.testing.simulated_cloud import Cloud, CloudInstance
from benchfleet.testing.simulated_http import ApiServer
from benchfleet.testing.simulated_vast import VastApi

OFFERS = [(11, "RTX 4090", 24, 340_000), (12, "RTX 4090", 24, 420_000), (13, "A100", 80, 890_000)]
CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/.ssh/authorized_keys
SetEnv HOME={folder}
PidFile none
UsePAM no
StrictModes no
"""
ENDS_WITH_ITS_PARENT = ["sh", "-c", '"$@" & read -r end; kill -KILL 0', "sh"]  # by its stdin
INVENTORY = """\
providers:
  vast: {{url: "{url}", visible_within: 5s}}
rent:
  # cpu_slots and python: the machines of this example have no GPU, and benchfleet is here already.
  - {{name: r4090, gpu: RTX 4090, count: 2, max_price: 0.60 USD/h, cpu_slots: 1,
     python: {python}, user: {user}}}
"""


class Machines:
    """What runs behind the instances."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {}

    def start(self, one: CloudInstance, body: Mapping[str, Any]) -> None:
        """Start an instance: its sshd, and its start script."""
        home = self.folder / one.id
        home.mkdir()
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "host_key")]
        subprocess.run(keygen, check=True)
        one.port = free_port()
        config = home / "sshd_config"
        config.write_text(CONFIG.format(port=one.port, folder=home))
        sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
        own = {"HOME": str(home), "CONTAINER_ID": one.id, "CONTAINER_API_KEY": one.key}
        script = ["sh", "-c", f"{body['onstart']}\nwait"]
        self._processes[one.id] = [
            subprocess.Popen(
                [*ENDS_WITH_ITS_PARENT, *command],
                env={**os.environ, **own},
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
            for command in ([sshd or "sshd", "-D", "-f", str(config)], script)
        ]
        print(f"+ instance {one.id}: {one.offer.gpu} at {one.offer.price / 1e6} USD/h", flush=True)

    def end(self, one: CloudInstance) -> None:
        """End an instance."""
        if processes := self._processes.pop(one.id, None):
            for process in processes:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            print(f"- instance {one.id}: destroyed", flush=True)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def serve(api: VastApi, inventory: Path) -> ApiServer:
    """Serve at the address that the inventory names, or else at a free port."""
    text = inventory.read_text() if inventory.exists() else ""
    port = re.search(r"http://127\.0\.0\.1:(\d+)", text)
    try:
        return ApiServer(api, int(port[1]) if port else 0)
    except OSError as error:
        sys.exit(f"{error.strerror}: {inventory} names this port. Does cloud.py run already?")


def main() -> None:
    """Serve until Ctrl-C."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)
    offers = [
        GpuOffer(
            provider="vast", id=str(id), machine=f"m{id}", gpu=gpu, count=1, vram=vram << 30,
            price=price, region="Simulated", reliability=0.99, cuda="12.8",
        )
        for id, gpu, vram, price in OFFERS
    ]  # fmt: skip
    # An id is never used twice, also not by the provider that ran here before.
    cloud = Cloud(now=time.time(), offers=offers, first_id=int(time.time()))
    with tempfile.TemporaryDirectory(prefix="simulated-vast-") as folder:
        machines = Machines(Path(folder))
        api = VastApi(cloud, clock=time.time, created=machines.start, ended=machines.end)
        inventory = Path("machines.yaml")
        server = serve(api, inventory)
        text = INVENTORY.format(url=server.url, python=sys.executable, user=getpass.getuser())
        inventory.write_text(text)
        print(f"a simulated Vast.ai at {server.url}; machines.yaml rents there", flush=True)
        ended = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        with suppress(KeyboardInterrupt):
            ended.wait()
        server.close()
        for one in cloud.living:
            machines.end(one)
        print(f"the bill: {cloud.bill() / 1e6:.4f} USD", flush=True)


if __name__ == "__main__":
    main()
