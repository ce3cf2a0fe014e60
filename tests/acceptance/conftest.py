"""benchfleet as a user has it: the installed command, in a folder of its own."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from benchfleet.cli.main import main
from benchfleet.domain.host import Host
from benchfleet.git import process as git_process
from benchfleet.machines.nvml import RECORDING

_UNBUFFERED = "PYTHONUNBUFFERED"
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

# Verbs of which a process of their own shows nothing more, and which cost less than its imports.
_LOOKING = ("compare", "failures", "logs", "plan", "report", "schema", "status", "verify")
_CARING = ("archive", "assign", "cancel", "gate", "gc", "ledger", "merge", "phase", "reap")
_OTHERS = ("init", "reassign", "release", "retry", "run", "service", "slots", "slurm")
IN_PROCESS = frozenset((*_LOOKING, *_CARING, *_OTHERS))


class _Printed(TextIOWrapper):
    """What is printed in the test's own process, as a pipe would have it."""

    def __init__(self) -> None:
        super().__init__(BytesIO(), encoding="utf-8")

    @property
    def text(self) -> str:
        self.seek(0)
        return self.read()


@dataclass(frozen=True)
class User:
    """Somebody in an empty folder."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        cache = str(self.folder / ".cache")
        own = {"XDG_CACHE_HOME": cache, "COLUMNS": "100", "NO_COLOR": "1"}
        # Users have no PYTHONUNBUFFERED, so what is printed may wait until the end.
        return {name: value for name, value in os.environ.items() if name != _UNBUFFERED} | own

    def write(self, text: str, name: str = "study.yaml") -> Path:
        file = self.folder / name
        file.write_text(text)
        return file

    def run(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run benchfleet to its end; `code` is the exit code it must end with."""
        # Who sets PYTHONPATH wants another interpreter than the test's own, and --detach forks.
        own = "--detach" in words or "PYTHONPATH" in self.environment
        if words[0] in IN_PROCESS and not own:
            done = self.run_here(*words)
        else:
            done = subprocess.run(
                [*COMMAND, *words],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=240,
            )
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        if code is not None:
            assert done.returncode == code, done.stdout + done.stderr
        return done

    def run_here(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run benchfleet in the test's own process, where the test may replace parts of it."""
        (out, err), collects = (_Printed(), _Printed()), gc.get_threshold()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.folder)
            for name, value in self.environment.items():
                patch.setenv(name, value)
            try:
                code = main(words)
            except SystemExit as end:  # argparse refuses, or has shown its help
                code = int(end.code or 0)
            finally:
                gc.set_threshold(*collects)
                git_process.interrupt(False)
        return subprocess.CompletedProcess([*words], code, out.text, err.text)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start benchfleet and leave it running, until the test ends at the latest."""
        process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def kill_started(self) -> None:
        for process in self.started:
            process.kill()
            with process:
                pass

    def inventory(self, *hosts: Host) -> str:
        """Write ``machines.json`` with these hosts; its name."""
        output = {}
        for host in hosts:
            output[host.name] = {
                key: sorted(value) if isinstance(value, frozenset) else value
                for key, value in asdict(host).items()
                if value and key != "name"
            }
        return self.write(json.dumps({"hosts": output}), "machines.json").name

    def json(self, *words: str, code: int | None = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code).stdout)

    def failures(self, *words: str) -> str:
        """What ``failures`` shows; a cell's log may end with a trace, as a run's output may not."""
        shown, output = self.start("failures", "study.yaml", *words).communicate(timeout=60)
        assert output == ""
        return shown

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


def well(index: int, **more: Any) -> dict[str, Any]:
    """A GPU of 80 GB that nobody uses, as a recording has it."""
    known = {"name": "H100", "uuid": f"GPU-{index}", "memory": 80 * 10**9, "free": 79 * 10**9}
    return {"index": index, **known, **more}


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def end_of(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait until it ends with this exit code; what it printed that was not read yet."""
    try:
        out, err = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError("\n".join(["it did not end:", *process.communicate()])) from None
    assert process.returncode == code, out + err
    return out


def wait_for_line(process: subprocess.Popen[str], part: str) -> str:
    """Read what it prints up to a line with this part; that line."""
    assert process.stdout is not None
    while part not in (line := process.stdout.readline()):
        assert line, f"it ended without {part}"
    return line


def samples_kept(user: User) -> int:
    """How many answers lie in folders of attempts, which come and go meanwhile."""
    count = 0
    for place, _, files in os.walk(user.results / ".attempts"):
        if "samples.jsonl" in files:
            with suppress(FileNotFoundError):
                count += Path(place, "samples.jsonl").read_bytes().count(b"\n")
    return count


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    """With runs of their own, also for verbs that a test calls in its own process."""
    found = User(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", found.environment["XDG_CACHE_HOME"])
    yield found
    found.kill_started()


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


@pytest.fixture
def gpus(user: User, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the GPUs of this machine."""
    file = user.folder / "nvml.json"
    monkeypatch.setenv(RECORDING, str(file))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def set_(*found: dict[str, Any]) -> None:
        file.write_text(json.dumps({"driver": "550.54.15", "gpus": found}))

    return set_


@pytest.fixture
def without_torch(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreters that lack torch and transformers, as a plain install does."""
    bars = user.folder / "bars"
    bars.mkdir()
    (bars / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "found = PathFinder.find_spec\n"
        "PathFinder.find_spec = lambda name, *rest: (\n"
        "    None if name.split('.')[0] in ('torch', 'transformers') else found(name, *rest))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(bars))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Samples and score of the cell of `splits` that was not split."""
    from .splits import in_one_piece  # which imports this module

    return in_one_piece(tmp_path_factory.mktemp("whole"))
