"""The PostgreSQL ledger over TLS: what an address asks of libpq is asked of the server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.errors import LedgerUnreachable
from postgres import Postgres

_AUTHORITY = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={0} -keyout {0}.key -out {0}.pem"
)
_ASKED = (
    "openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr"
)
_SIGNED = (
    "openssl x509 -req -in server.csr -CA lab.pem -CAkey lab.key -CAcreateserial -days 2"
    " -out server.crt"
)
_RULES = """\
local all all trust
hostssl all all 127.0.0.1/32 trust
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's certificate for `localhost` by the authority `lab`, and another authority."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    folder = tmp_path_factory.mktemp("certificates")
    for command in (_AUTHORITY.format("lab"), _AUTHORITY.format("other"), _ASKED, _SIGNED):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def secured(certificates: Path) -> Iterator[Postgres]:
    """A server that speaks TLS alone."""
    server = Postgres(settings=["ssl=on"])
    data = server.folder / "data"
    for name in ("server.crt", "server.key"):
        file = Path(shutil.copy(certificates / name, data / name))
        file.chmod(0o600)
        os.chown(file, data.stat().st_uid, data.stat().st_gid)
    (data / "pg_hba.conf").write_text(_RULES)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def asked(secured: Postgres, certificates: Path) -> Callable[..., bool]:
    """Opens a ledger at that host as the options ask; whether it is over TLS."""
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    def opened(options: str, host: str = "localhost") -> bool:
        words = options.format(certificates)
        url = f"postgresql://bench@{host}:{secured.port}/postgres?{words}"
        with (
            closing(PostgresLedger(url, campaign="study")) as ledger,
            ledger._connections.one() as line,
        ):
            return bool(line.pgconn.ssl_in_use)

    return opened


def test_a_server_with_the_right_certificate_is_let_in(asked: Callable[..., bool]) -> None:
    assert asked("sslmode=verify-full&sslrootcert={}/lab.pem")


@pytest.mark.parametrize(
    ("options", "host", "output"),
    [
        ("sslmode=verify-full&sslrootcert={}/other.pem", "localhost", "verify failed"),
        ("sslmode=verify-full&sslrootcert={}/lab.pem", "127.0.0.1", "does not match host name"),
        ("sslmode=verify-full&sslrootcert={}/none.pem", "localhost", "does not exist"),
        ("sslmode=disable", "127.0.0.1", "no encryption"),
    ],
)
def test_a_server_that_is_not_the_one_asked_for_is_refused_at_once(
    asked: Callable[..., bool], options: str, host: str, output: str
) -> None:
    with pytest.raises(LedgerUnreachable, match=output) as refused:
        asked(options, host)
    assert "make it on the server" not in str(refused.value)
