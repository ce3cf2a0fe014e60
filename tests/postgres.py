"""A real PostgreSQL server on this machine, with its own data and port: a ledger for tests."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from watchers import ends_with_us, free_port

_RULES = """\
local all all trust
host all secretive 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
"""
_BOUND = 60  # seconds for the server to answer, and to end


@cache
def _programs() -> Path | None:
    """The folder of initdb and postgres; Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: -int(p.parent.name))
    return next((place for place in places if (place / "postgres").exists()), None)


def need_postgres() -> Path:
    """Where the server's programs are; skips the test where there are none, and fails it in CI."""
    pytest.importorskip("psycopg")
    place = _programs()
    if place is not None:
        return place
    reason = "no PostgreSQL here: it comes with the package postgresql"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Postgres:
    """A server that trusts everybody on this machine but the role `secretive`; it keeps nothing
    safe from power cuts, unless it is `synced`. The caller calls `remove` at the end.

    It keeps its data `below` a folder, and works by these further `settings`.
    """

    def __init__(
        self, *, synced: bool = False, below: str | None = None, settings: Sequence[str] = ()
    ) -> None:
        self._programs = need_postgres()
        self._settings = [word for setting in settings for word in ("-c", setting)]
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._synced = synced
        self.port = free_port()
        # Not below the tests' own folder, into which another user may not look.
        self.folder = Path(tempfile.mkdtemp(prefix="benchfleet-postgres-", dir=below))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server does not run as root
            user = _server_user()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        words = ["--username=bench", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [self._programs / "initdb", "-D", self.folder / "data", *words],
            check=True,
            capture_output=True,
            cwd="/",
            **self._user,
        )
        (self.folder / "data" / "pg_hba.conf").write_text(_RULES)

    def url(self, *, user: str = "bench", port: int = 0, database: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def dump(self) -> bytes:
        """All that its databases have, as SQL."""
        words = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "bench"]
        dumped = subprocess.run(
            [self._programs / "pg_dumpall", *words], check=True, capture_output=True
        )
        return dumped.stdout

    def start(self) -> None:
        """Start it, again on the same port, and wait until it answers."""
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self.folder / "data"),
                    *("-p", str(self.port), "-k", self.folder),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"),
                    *("-c", f"fsync={'on' if self._synced else 'off'}"),
                    *("-c", f"synchronous_commit={'on' if self._synced else 'off'}"),
                    *self._settings,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **self._user,
            )
        self._watcher = ends_with_us(f"kill -QUIT {self._process.pid}; rm -rf {self.folder}")
        deadline = time.monotonic() + _BOUND
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.remove()
                raise RuntimeError("the PostgreSQL server does not answer")
            time.sleep(0.05)

    def stop(self, *, crash: bool = False) -> None:
        """End it at once, breaking every connection; a crash leaves it to be recovered."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._process.wait(_BOUND)
            self._process = None

    def standby(self) -> Postgres:
        """A server that follows this one, and is not started yet. The caller removes it."""
        other = Postgres(synced=self._synced)
        shutil.rmtree(other.folder / "data")
        command = [str(self._programs / "pg_basebackup"), "-D", str(other.folder / "data")]
        words = [
            "-R",
            "--no-sync",
            "-c",
            "fast",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "bench",
        ]
        subprocess.run([*command, *words], check=True, capture_output=True, cwd="/", **other._user)
        return other

    def remove(self) -> None:
        self.stop(crash=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, statement: str, *, database: str = "postgres") -> str:
        """What psql answers, one row a line."""
        command = [str(self._programs / "psql"), "-qAtX", "-v", "ON_ERROR_STOP=1"]
        words = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "bench", database, "-c", statement]
        done = subprocess.run([*command, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def _answers(self) -> bool:
        words = ["-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run([self._programs / "pg_isready", *words], check=False).returncode == 0


@cache
def shared_postgres() -> Postgres:
    """The one server of this session; each test uses a campaign name of its own."""
    server = Postgres()
    server.start()
    return server


def _server_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("no user here that a PostgreSQL server could run as")
