"""The ledger in git over ssh and over smart HTTP, with real servers of the test's own."""

from __future__ import annotations

import getpass
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchfleet.domain.attempt import RunnerId
from benchfleet.errors import LedgerAway
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from git_workers import lines, published, rest, workers
from repositories import make_bare
from sshd import Sshd

from .conftest import SUCCESS


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return make_bare(tmp_path / "served" / "lab.git")


def works(url: str, tmp_path: Path) -> None:
    """Two installations share cells over it."""
    how = {"campaign": "study", "max_age": 0.0, "timeout": 0.0}
    with (
        closing(GitLedger(url, folder=tmp_path / "one", **how)) as one,  # type: ignore[arg-type]
        closing(GitLedger(url, folder=tmp_path / "two", **how)) as two,  # type: ignore[arg-type]
    ):
        assert one.enroll([sample_cell(number) for number in range(4)]) == 4
        mine = claim_any(one, RunnerId("one"), 2)
        theirs = claim_any(two, RunnerId("two"), 9)
        assert (len(mine), len(theirs)) == (2, 2)
        one.finish(mine[0].lease, SUCCESS)
        assert two.renew([claim.lease for claim in theirs]) == [c.lease for c in theirs]
        states = [record.state for record in two.cells()]
        assert (states.count("success"), states.count("running")) == (1, 3)


def works_through_mishaps(
    url: str, bare: Path, tmp_path: Path, away: Callable[[bool], None]
) -> None:
    """Workers share cells over it: one is killed, and the server is away for a while."""
    cells = [sample_cell(number, model=f"model-{number % 3}") for number in range(12)]
    with closing(GitLedger(url, campaign="study", folder=tmp_path / "first")) as ledger:
        assert ledger.enroll(cells) == len(cells)
    with workers(url, tmp_path) as start:
        killed, steady = start("killed", slow=0.1), [start("one"), start("two", batch=1)]
        output = [lines(killed, 3)]
        killed.kill()
        output += [rest(killed), lines(steady[0], 2)]
        away(True)
        time.sleep(1.5)
        away(False)
        output += [rest(worker) for worker in steady]
        assert [worker.returncode for worker in steady] == [0, 0]
    with closing(GitLedger(url, campaign="study", folder=tmp_path / "last")) as ledger:
        outcomes = {record.fingerprint: record.outcome for record in ledger.cells()}
        finished = Counter(event.fingerprint for event in ledger.events(kinds=["finished"]))
        ledger.sync.complete_results()
    assert finished == {cell.fingerprint: 1 for cell in cells}
    promised = Counter(line for printed in output for line in printed if len(line) == 64)
    assert set(promised.values()) == {1}
    assert set(promised) <= set(finished)
    assert published(bare) == {name: [o.digest] for name, o in outcomes.items() if o is not None}


def test_over_ssh(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sshd").mkdir()
    sshd = Sshd(tmp_path / "sshd")
    sshd.start()
    try:
        known = tmp_path / "known_hosts"
        monkeypatch.setenv(
            "GIT_SSH_COMMAND",
            f"ssh -F none -i {sshd.identity} -o IdentitiesOnly=yes -o UserKnownHostsFile={known}"
            " -o StrictHostKeyChecking=accept-new",
        )
        works(f"git+ssh://{getpass.getuser()}@127.0.0.1:{sshd.port}{bare}", tmp_path)
        other = make_bare(tmp_path / "served" / "other.git")
        works_through_mishaps(
            f"git+ssh://{getpass.getuser()}@127.0.0.1:{sshd.port}{other}",
            other,
            tmp_path / "mishaps",
            lambda away: sshd.kill() if away else sshd.start(),
        )
        sshd.authorize()
        with pytest.raises(LedgerAway, match=r"Permission denied.*may read and push"):
            works(f"git+ssh://{getpass.getuser()}@127.0.0.1:{sshd.port}{bare}", tmp_path)
    finally:
        sshd.kill()


class Backend(BaseHTTPRequestHandler):
    """Git's own CGI program behind a plain server."""

    served: Path
    closed = False

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(body)

    def answer(self, body: bytes) -> None:
        if self.closed:
            self.send_error(403)
            return
        path, _, query = self.path.partition("?")
        environ = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.served),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "someone",
            "REMOTE_ADDR": "127.0.0.1",
        }
        output = subprocess.run(
            ["git", "http-backend"], input=body, env=environ, capture_output=True, check=True
        ).stdout
        head, _, content = output.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().splitlines()]
        status = next((value for name, value in fields if name == "Status"), "200 OK")
        self.send_response(int(status.split()[0]))
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: object) -> None:
        """Nothing is written."""


@pytest.fixture
def server(bare: Path) -> Iterator[tuple[str, type[Backend]]]:
    kind = type("Ours", (Backend,), {"served": bare.parent})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.05,))
        thread.start()
        yield f"git+http://127.0.0.1:{found.server_port}/lab.git", kind
        found.shutdown()
        thread.join()


def test_over_smart_http(server: tuple[str, type[Backend]], tmp_path: Path) -> None:
    url, kind = server
    works(url, tmp_path)
    other = make_bare(tmp_path / "served" / "other.git")
    works_through_mishaps(
        url.replace("lab.git", "other.git"),
        other,
        tmp_path / "mishaps",
        lambda away: setattr(kind, "closed", away),
    )
    kind.closed = True
    with pytest.raises(LedgerAway, match=r"403.*may read and push"):
        works(url, tmp_path)
