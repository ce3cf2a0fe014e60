"""Keys appear nowhere: random words as keys, a run in which much goes wrong, and a search.

What is searched: all output, every file of the user, the disk of each rented machine, URLs and
bodies of all requests, the words of all processes, and the environment of the run's children.
"""

from __future__ import annotations

import base64
import json
import secrets
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from benchfleet.testing.simulated_http import Answer
from postgres import Postgres
from rented_machines import RealCloud, real_cloud
from repositories import make_bare

from .conftest import MOCK as STUDY
from .conftest import User, samples_kept, until
from .hurried import start_hurried

ACCOUNT, OWN, TOKEN = (secrets.token_hex(20) for _ in range(3))
_PART = 12  # characters of a key that are too many to show
LEDGER = ["--ledger", "git+file:lab.git"]  # with a copy of its own in SQLite
RUN = ["run", "study.yaml", *LEDGER, "--machines", "machines.yaml", "--rent", "--yes"]


def traces(word: str) -> set[bytes]:
    """Each part of a key as it may be written."""
    parts = [word[n : n + _PART] for n in range(len(word) - _PART + 1)]
    encoded = {base64.b64encode((" " * n + word).encode())[4:-4] for n in range(3)}
    in_json = "".join(f"\\u{ord(one):04x}" for one in word)
    percent = "".join(f"%{ord(one):02X}" for one in word)
    every = {part.encode() for part in parts} | encoded
    return every | {in_json.encode(), percent.encode(), quote(word).encode()}


ALL = {name: traces(word) for name, word in (("account", ACCOUNT), ("own", OWN), ("hub", TOKEN))}


def found_in(data: bytes) -> set[str]:
    """The keys of which the data have a part."""
    return {name for name, parts in ALL.items() if any(part in data for part in parts)}


def found_in_objects(repository: Path) -> set[str]:
    """The keys in what a git repository has, unpacked."""
    words = ["git", "-C", str(repository), "cat-file", "--batch-all-objects", "--batch"]
    unpacked = subprocess.run(words, capture_output=True, check=True).stdout
    assert b"rental_ready" in unpacked
    return found_in(unpacked)


def found_in_database(user: User, server: Postgres) -> set[str]:
    """The keys in a copy of the ledger on PostgreSQL, as a dump of all databases has it."""
    copy = ["--to", server.url(), "--yes"]
    user.run("ledger", "copy", "study.yaml", *LEDGER, *copy)
    dump = server.dump()
    assert b"rental_ready" in dump
    return found_in(dump)


def found_below(folders: Iterable[Path]) -> set[tuple[str, str]]:
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return {(str(file), name) for file in files for name in found_in(file.read_bytes())}


class Watch:
    """Looks at all processes many times a second; at the children of `pid` also inside."""

    def __init__(self) -> None:
        self.words: set[str] = set()  # keys in the words of a process
        self.environments: set[tuple[str, str]] = set()  # keys there, of the run's children
        self.pid = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        seen: set[bytes] = set()  # searched before: a search takes long, beside others that run
        while not self._ends.wait(0.05):
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    if (data := (folder / "cmdline").read_bytes()) not in seen:
                        seen.add(data)
                        self.words |= found_in(data)
            with suppress(psutil.Error, OSError):
                own_words = Path(f"/proc/{self.pid}/cmdline").read_bytes() if self.pid else b""
                for child in psutil.Process(self.pid).children(recursive=True) if self.pid else ():
                    folder = Path("/proc", str(child.pid))
                    with suppress(OSError):
                        words = (folder / "cmdline").read_bytes()
                        if (data := (folder / "environ").read_bytes()) not in seen:
                            becomes_another = words != (folder / "cmdline").read_bytes()
                            if becomes_another or words in (b"", own_words):
                                continue  # it has begun, and is no other program yet
                            seen.add(data)
                            found = found_in(data) - {"hub"}  # slots need that one
                            self.environments |= {(name, words.decode()) for name in found}

    def end(self) -> None:
        self._ends.set()
        self._thread.join()


@pytest.fixture
def watch() -> Iterator[Watch]:
    one = Watch()
    yield one
    one.end()


@pytest.fixture
def rented(
    user: User, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealCloud]:
    monkeypatch.setenv("VAST_API_KEY", ACCOUNT)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with real_cloud(lambda: tmp_path_factory.mktemp("rented"), key=ACCOUNT) as cloud:
        cloud.cloud.own_key = OWN
        user.write(STUDY)
        (user.folder / "machines.yaml").write_text(
            f"providers: {{vast: {{url: '{cloud.url}', visible_within: 1s}}}}\n"
            f"rent: [{{name: r4090, gpu: RTX 4090, cpu_slots: 1, python: {sys.executable}}}]\n"
        )
        yield cloud


class Troubles:
    """Answers some requests as a provider does that leaks what it was sent."""

    def __init__(self, cloud: RealCloud) -> None:
        self._answer = cloud.api.answer
        self.seen, self.headers = b"", b""
        self._lists = 0

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        self.seen += target.encode() + body
        self.headers += headers.get("authorization", "").encode()
        if "/instances/?" in target and method == "GET":
            self._lists += 1
            echo = json.dumps(dict(headers)).encode()
            match self._lists:
                case 2:
                    return 500, {}, b"<html>500: you sent " + echo
                case 4:
                    return 302, {"Location": "http://127.0.0.1:9/" + headers["authorization"]}, b""
                case 6:
                    return 403, {}, echo
        return self._answer(method, target, headers, body)


def test_keys_appear_nowhere(
    user: User, rented: RealCloud, watch: Watch, postgres: Postgres
) -> None:
    make_bare(user.folder / "lab.git")
    troubles = Troubles(rented)
    rented.api.answer = troubles.answer  # type: ignore[method-assign]
    rented.cloud.faults["create"] = ["lost"]
    rented.cloud.faults["destroy"] = ["away"]
    benchmark = "{_hostile: {samples: 600, seconds: 0.05}}"
    user.write(STUDY.replace("benchmarks: [mock_benchmark]", f"benchmarks: [{benchmark}]"))
    killed = start_hurried(user, *RUN, "--log-level", "debug")
    watch.pid = killed.pid
    until(lambda: samples_kept(user), 180)
    disks = {sshd.folder for sshd in rented.sshds.values()}
    killed.kill()
    output = "".join(killed.communicate(timeout=60))
    user.write(STUDY)
    again = start_hurried(user, *RUN, "--log-level", "debug")
    watch.pid = again.pid
    output += "".join(again.communicate(timeout=240))
    output += user.run("manifest", "study.yaml", *LEDGER, "--format", "json").stdout
    output += user.run("sweep-orphans", "study.yaml", *LEDGER, "--machines", "machines.yaml").stdout
    assert not rented.cloud.living, output
    assert user.json("status", "study.yaml", *LEDGER)["success"] == 2, output
    watch.end()
    assert not found_in(output.encode())
    assert not found_in(troubles.seen)
    assert not found_below([user.folder, *disks])
    assert not found_in_objects(user.folder / "lab.git")
    assert not found_in_database(user, postgres)
    assert not watch.words
    assert not watch.environments
    assert found_in(troubles.headers) == {"account", "own"}  # that is where they belong


def test_the_search_finds_a_key_wherever_it_is_planted(tmp_path: Path, watch: Watch) -> None:
    text, packed = f"x{ACCOUNT[5:25]}x", base64.b64encode(f"ab{OWN}".encode())
    (tmp_path / "log").write_text(text)
    with sqlite3.connect(tmp_path / "ledger.db") as ledger:
        ledger.execute("create table event (data)")
        ledger.execute("insert into event values (?)", (TOKEN,))
    ledger.close()
    (tmp_path / "packed").write_bytes(packed)
    assert {name for _, name in found_below([tmp_path])} == {"account", "hub", "own"}
    watch.pid = psutil.Process().pid
    environment = {"KEY": ACCOUNT}
    sleeper = ["sh", "-c", "read line", OWN]
    process = subprocess.Popen(sleeper, stdin=subprocess.PIPE, env=environment)
    until(
        lambda: watch.words == {"own"} and {name for name, _ in watch.environments} == {"account"},
        30,
    )
    process.communicate()
