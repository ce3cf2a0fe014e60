"""What runs on a Ray node: actors for slots and for requests of nodes, and a look at it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import benchfleet
from benchfleet.domain.host import Host
from benchfleet.engines import commands
from benchfleet.engines.ray_tls import Relay, tls_context

CONNECT_TIMEOUT_S = 30.0
LOOK_TIMEOUT_S = 600.0  # more than the runner waits, which then asks again
RELAY_TIMEOUT_S = 5.0  # for the last bytes of a slot that has ended


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
        context, relays = tls_context(os.environ, server=False), list[Relay]()
        with contextlib.ExitStack() as stack:
            streams = []
            for name in ("frames", "output"):
                stream = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if context is not None:
                    stream = context.wrap_socket(stream)
                stream.sendall(json.dumps({**hello, "stream": name}).encode() + b"\n")
                stream.settimeout(None)
                if isinstance(stream, ssl.SSLSocket):
                    relays.append(Relay(stream))
                    stream = relays[-1].plain
                streams.append(stack.enter_context(stream))
            frames, output = streams
            launcher = str(package / "slot" / "launch.py")
            process = subprocess.Popen(
                [sys.executable, "-S", "-E", launcher, "--guard", str(os.getpid())],
                stdin=frames.fileno(),
                stdout=frames.fileno(),
                stderr=output.fileno(),
            )
        code = process.wait()
        for relay in relays:
            relay.join(RELAY_TIMEOUT_S)
        return code


class NodeRequest:
    """Waits to be placed, so that an autoscaler brings a node on which it fits."""

    def node(self) -> str:
        """The id of the node on which it was placed."""
        import ray

        return str(ray.get_runtime_context().get_node_id())


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
