"""benchfleet as a user has it: the installed command, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "benchfleet.cli.main"]

MOCK = """\
campaign: study
matrix:
  models:
    - {name: m1, adapter: mock, model_kwargs: {answer: Ada Brandt}}
    - {name: m2, adapter: mock, model_kwargs: {answer: Ingham}}
  configs: {dense: null}
  benchmarks: [mock_benchmark]
"""


@dataclass(frozen=True)
class User:
    """Somebody in an empty folder."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        cache = str(self.folder / ".cache")
        return {**os.environ, "XDG_CACHE_HOME": cache, "COLUMNS": "100", "NO_COLOR": "1"}

    def write(self, text: str, name: str = "study.yaml") -> Path:
        file = self.folder / name
        file.write_text(text)
        return file

    def run(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run benchfleet to its end; `code` is the exit code it must end with."""
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        if code is not None:
            assert done.returncode == code, done.stdout + done.stderr
        return done

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start benchfleet and leave it running."""
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def json(self, *words: str, code: int | None = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code).stdout)

    @property
    def results(self) -> Path:
        return self.folder / "benchmark_results" / "study"

    def published(self) -> dict[str, bytes]:
        """The sealed cell.json of every published folder, by path."""
        found = {}
        for place, folders, files in os.walk(self.results):  # what runs may change it meanwhile
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if "cell.json" in files:
                path = Path(place).relative_to(self.results).as_posix()
                found[path] = Path(place, "cell.json").read_bytes()
        return found


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def samples_kept(user: User) -> int:
    """How many answers lie in folders of attempts, which come and go meanwhile."""
    count = 0
    for place, _, files in os.walk(user.results / ".attempts"):
        if "samples.jsonl" in files:
            with suppress(FileNotFoundError):
                count += Path(place, "samples.jsonl").read_bytes().count(b"\n")
    return count


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """With runs of their own, also for verbs that a test calls in its own process."""
    found = User(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", found.environment["XDG_CACHE_HOME"])
    return found


@pytest.fixture(scope="session")
def mock_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user whose campaign MOCK has run, to be copied."""
    user = User(tmp_path_factory.mktemp("mock"))
    user.write(MOCK)
    user.run("run", "study.yaml")
    return user.folder


@pytest.fixture
def finished(user: User, mock_run: Path) -> User:
    """A user whose campaign MOCK has run."""
    shutil.copytree(mock_run, user.folder, dirs_exist_ok=True)
    return user
