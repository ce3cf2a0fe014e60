"""A real MLflow server on loopback, with its data below a folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_START_LIMIT_S = 120


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """The address of a server that runs as long as the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    words += ["--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    words += ["--artifacts-destination", str(folder / "artifacts")]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            words,
            env={**os.environ, **quiet},
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(address, server, folder)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _wait(address: str, server: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while True:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()  # noqa: S310
            return
        except OSError:
            alive = server.poll() is None and time.monotonic() < deadline
            assert alive, (folder / "server.log").read_text()
            time.sleep(0.1)
