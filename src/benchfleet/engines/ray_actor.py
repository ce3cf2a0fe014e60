"""What runs on a Ray node: an actor that starts a slot's supervisor, and a look at the node."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import benchfleet
from benchfleet.domain.host import Host
from benchfleet.engines import commands

CONNECT_TIMEOUT_S = 30.0
LOOK_TIMEOUT_S = 60.0


class SlotActor:
    """Holds a slot's resources, and starts the supervisor whose streams lead to the runner.

    The supervisor's streams are connections to the runner, so that no sample passes through Ray. A
    guard between this process and the supervisor is what Ray kills; see `slot/launch.py`.
    """

    def run(self, address: tuple[str, int], key: str) -> int:
        """Start the supervisor, and return its exit code once it has ended. Raises OSError where
        the runner's address cannot be reached."""
        import ray

        package = Path(benchfleet.__file__).parent
        hello = {
            "key": key,
            "gpus": ",".join(map(str, ray.get_gpu_ids())),
            "package": str(package),
        }
        with contextlib.ExitStack() as stack:
            streams = []
            for name in ("frames", "output"):
                stream = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
                stack.enter_context(stream)
                stream.settimeout(None)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stream.sendall(json.dumps({**hello, "stream": name}).encode() + b"\n")
                streams.append(stream)
            frames, output = streams
            launcher = str(package / "slot" / "launch.py")
            process = subprocess.Popen(
                [sys.executable, "-S", "-E", launcher, "--guard", str(os.getpid())],
                stdin=frames.fileno(),
                stdout=frames.fileno(),
                stderr=output.fileno(),
            )
        return process.wait()


def look(slots: Sequence[str], folder: str) -> str:
    """Kill what is left of these slots on this node, and return the node's facts. Raises
    RuntimeError with what its interpreter printed, if that fails."""
    host = Host(name="node", python=sys.executable, folder=folder)
    source = str(Path(benchfleet.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    texts = []
    for words in [*([commands.sweep(host, slots)] if slots else []), commands.facts(host)]:
        ended = subprocess.run(
            words, capture_output=True, text=True, timeout=LOOK_TIMEOUT_S, env=environment
        )
        if ended.returncode:
            last = ended.stderr.strip().rpartition("\n")[2]
            raise RuntimeError(f"exit code {ended.returncode}: {last}")
        texts.append(ended.stdout)
    return texts[-1]
