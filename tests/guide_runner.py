"""Run a page of the documentation as written: its files, its commands, and what it shows of them.

The blocks of a page mean:

- a block with a title, in any language but sh (``yaml title="study.yaml"``): a file. It is
  written. Where the file is there already, the block must be a part of it;
- ``sh``: commands, which run one after the other in one shell. ``sh title="…"`` is another
  terminal, which runs beside the first until the page ends;
- ``text`` behind ``sh``: lines that the block printed, in this order. ``…`` stands for anything,
  and one duration is as good as another. The lines of another terminal are awaited;
- all others, such as ``console``, are not run.

A command must end with exit code 0, or with the one that its comment names (``# exit code 1``). Of
``pip install`` only the extras are checked. Port 8050 becomes a free one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from watchers import free_port

ROOT = Path(__file__).parents[1]
PORT = "8050"
BOUND_S = 240.0  # for one command
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_DURATION = re.compile(r"\d+(\.\d+)? (ms|s|min|h)\b( \d+ (s|min)\b)?")
_MARK = "-- the command ended with"


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks at the left margin of a page, in order."""
    found = []
    for language, more, text in _FENCE.findall(page.read_text("utf-8")):
        title = re.search(r'title="([^"]+)"', more)
        found.append(Block(language, title[1] if title else "", text))
    return found


def commands_of(block: str) -> list[str]:
    """The commands of a block, each with its continued lines."""
    lines = block.replace("\\\n", "\\\0").splitlines()
    return [line.replace("\0", "\n") for line in lines if line.strip()]


class Terminal:
    """A shell, and what it printed. Its creator calls `end`."""

    def __init__(self, folder: Path, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._shell = subprocess.Popen(
                ["bash", "--noprofile", "--norc"], cwd=folder, env=environment, text=True,
                stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        return self._log.read_text("utf-8", errors="replace")

    def type(self, command: str) -> None:
        """Begin a command; those that are typed meanwhile follow it."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f'{{ {command}\n}} < /dev/null\necho "{_MARK} $?"\n')
        self._shell.stdin.flush()

    def run(self, command: str) -> tuple[int, str]:
        """Run a command to its end; its exit code, and what it printed."""
        before = self.printed
        self.type(command)
        deadline = time.monotonic() + BOUND_S
        while not (end := re.search(rf"{_MARK} (\d+)\n", self.printed[len(before) :])):
            assert self._shell.poll() is None, self.printed
            assert time.monotonic() < deadline, f"{command} does not end: {self.printed}"
            time.sleep(0.02)
        return int(end[1]), self.printed[len(before) :][: end.start()]

    def end(self) -> None:
        """Ctrl-C, and SIGKILL where that is not enough."""
        for number, patience_s in ((signal.SIGINT, 60), (signal.SIGKILL, 60)):
            with suppress(ProcessLookupError):
                os.killpg(self._shell.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._shell.communicate(timeout=patience_s)
                break


class Guide:
    """A page that is run."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        own = {
            "XDG_CACHE_HOME": str(folder / ".cache"),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "HF_HUB_OFFLINE": "1",
        }
        self._environment = {**os.environ, **own, **environment}
        path = f"{Path(sys.executable).parent}:{self._environment['PATH']}:/usr/sbin"
        self._environment["PATH"] = path
        self._port = str(free_port())
        self._terminals: dict[str, Terminal] = {}
        self.folder = folder

    def printed(self, terminal: str) -> str:
        """What the commands of a terminal printed; the first one is ``""``."""
        return self._terminals[terminal].printed

    def terminal(self, title: str) -> Terminal:
        if title not in self._terminals:
            log = self.folder / f".terminal-{len(self._terminals)}"
            self._terminals[title] = Terminal(self.folder, self._environment, log)
        return self._terminals[title]

    def run(self, page: Path) -> None:
        """Write its files, run its commands, and compare what it shows."""
        last, printed = "", ""
        for language, title, block in blocks_of(page):
            text = block.replace(PORT, self._port)
            if language == "sh":
                last, printed = title, self._commands(title, text)
            elif title:
                self._file(self.folder / title, text)
            elif language == "text":
                self._compare(last, printed, text)

    def end(self) -> None:
        for terminal in self._terminals.values():
            terminal.end()

    def _file(self, file: Path, text: str) -> None:
        if file.exists():
            assert text in file.read_text("utf-8"), f"{file} does not have this part:\n{text}"
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")

    def _commands(self, title: str, text: str) -> str:
        printed = ""
        for command in commands_of(text):
            if command.startswith("pip install"):
                _check_extras(command)
            elif title:
                self.terminal(title).type(command)
            else:
                code, more = self.terminal("").run(command)
                expected = re.search(r"# .*exit code (\d+)", command)
                assert code == int(expected[1] if expected else 0), f"$ {command}\n{more}"
                printed += more
        return printed

    def _compare(self, terminal: str, printed: str, shown: str) -> None:
        deadline = time.monotonic() + BOUND_S
        while missing := _first_missing(self.printed(terminal) if terminal else printed, shown):
            if not terminal or time.monotonic() > deadline:
                output = self.printed(terminal) if terminal else printed
                pytest.fail(f"not printed: {missing}\nThe output was:\n{output}")
            time.sleep(0.05)


def _first_missing(printed: str, shown: str) -> str:
    """The first shown line that does not follow those before it in what was printed."""
    rest = iter(_normalized(printed))
    for line in _normalized(shown):
        pattern = ".*".join(map(re.escape, line.split("…")))
        if line != "…" and not any(re.fullmatch(pattern, other) for other in rest):
            return line
    return ""


def _normalized(text: str) -> list[str]:
    lines = (" ".join(_DURATION.sub("0 s", line).split()) for line in text.splitlines())
    return [line for line in lines if line]


def _check_extras(command: str) -> None:
    known = metadata("benchfleet").get_all("Provides-Extra") or []
    for extras in re.findall(r"(?:benchfleet|\.)\[([\w,-]+)\]", command):
        assert set(extras.split(",")) <= set(known), command


@contextmanager
def guide_in(folder: Path, **environment: str) -> Iterator[Guide]:
    """A folder with the examples, as a clone has it; its terminals end at the end."""
    shutil.copytree(
        ROOT / "examples",
        folder / "examples",
        ignore=shutil.ignore_patterns("benchmark_results", "__pycache__"),
    )
    guide = Guide(folder, environment)
    try:
        yield guide
    finally:
        guide.end()
