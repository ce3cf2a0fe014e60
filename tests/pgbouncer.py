"""A real PgBouncer between a PostgreSQL server and its clients, with its own folder and port."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from postgres import Postgres
from watchers import free_port

_SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server} user=bench
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
"""
_BOUND = 30  # seconds for it to answer


class PgBouncer:
    """It lets everybody in as `bench`. The caller calls `close` at the end."""

    def __init__(self, server: Postgres, mode: str) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            if os.environ.get("CI") == "true":
                pytest.fail("no PgBouncer here: it comes with the package pgbouncer")
            pytest.skip("no PgBouncer here: it comes with the package pgbouncer")
        self._port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="benchfleet-pgbouncer-"))
        settings = self._folder / "pgbouncer.ini"
        settings.write_text(_SETTINGS.format(server=server.port, port=self._port, mode=mode))
        as_user: dict[str, object] = {}
        if os.geteuid() == 0:  # it does not run as root
            user = pwd.getpwnam("nobody")
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._process = subprocess.Popen([program, "-q", settings], cwd="/", **as_user)  # type: ignore[call-overload]
        deadline = time.monotonic() + _BOUND
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise RuntimeError("PgBouncer does not answer")
            time.sleep(0.05)

    def url(self) -> str:
        return f"postgresql://bench@127.0.0.1:{self._port}/postgres"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", self._port)) == 0
