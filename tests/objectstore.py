"""A real object store on this machine that speaks S3: a place for tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from watchers import free_port

_BOUND = 60  # seconds for the server to answer


class ObjectStoreServer:
    """A server that takes any credentials. The caller must `stop` it."""

    def __init__(self, log: Path) -> None:
        pytest.importorskip("moto")
        pytest.importorskip("s3fs")
        self.port = free_port()
        with open(log, "wb") as opened:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-p", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=opened,
                stderr=opened,
            )
        deadline = time.monotonic() + _BOUND
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the object store does not answer: {log.read_text()}")
            time.sleep(0.05)

    @property
    def environment(self) -> dict[str, str]:
        """What its users need."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "very-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def bucket(self, name: str) -> str:
        """Make a bucket; its URL."""
        url = f"http://127.0.0.1:{self.port}/{name}"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT"))
        return f"s3://{name}"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False
