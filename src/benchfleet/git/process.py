"""Runs git without prompts, hooks, editors and background maintenance."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchfleet.environment import child_environment
from benchfleet.errors import GitAway, GitError, GitKilled

TIMEOUT_S = 300.0  # seconds for one command
INTERRUPTED_TIMEOUT_S = 10.0  # for one command once the process was asked to end
HUNG_TIMEOUT_S = 2.0  # for those after one that had not ended by then
_POLL_S = 1.0  # between two looks whether it was
TERM_GRACE_S = 2.0  # seconds between SIGTERM and SIGKILL
OWN_CONFIG = (  # before what the user's own configuration says
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "commit.gpgSign=false"),
    *("-c", "push.gpgSign=false"),
    *("-c", "push.followTags=false"),
    *("-c", "fetch.writeCommitGraph=false"),
    *("-c", "core.bigFileThreshold=1m"),  # looking for what two such have in common takes a minute
    *("-c", "protocol.version=2"),
    *("-c", "advice.detachedHead=false"),
)
SSH_OPTIONS = (
    "-o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=3"
)
# What a hook or an alias around us may have left, which would lead git to another repository.
FOREIGN_VARIABLES = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CONFIG_PARAMETERS"),
    *("GIT_QUARANTINE_PATH", "GIT_PUSH_OPTION_COUNT", "GIT_SHALLOW_FILE", "GIT_TRACE"),
)


class _Interrupt:
    """Whether somebody asked this process to end: then a git command gets little time."""

    def __init__(self) -> None:
        self.at: float | None = None  # by time.monotonic
        self._hung = False  # a command since then did not end

    def begin(self) -> None:
        self.at, self._hung = time.monotonic(), False

    def deadline(self, started: float, timeout: float) -> float:
        if self.at is None:
            return started + timeout
        limit = min(timeout, INTERRUPTED_TIMEOUT_S)
        return max(started, self.at) + (min(limit, HUNG_TIMEOUT_S) if self._hung else limit)

    def note_timeout(self) -> None:
        self._hung = self.at is not None


_interrupt = _Interrupt()


def interrupt(interrupted: bool = True) -> None:
    """Limit all git commands of this process to `INTERRUPTED_TIMEOUT_S` from now on, and to
    `HUNG_TIMEOUT_S` once one of them has hung for so long."""
    if interrupted:
        _interrupt.begin()
    else:
        _interrupt.at = None


def is_interrupted() -> bool:
    """Whether `interrupt` was called."""
    return _interrupt.at is not None


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """How a command ended."""

    code: int
    out: bytes
    err: str


class Git:
    """Runs commands on one repository. Credentials, proxies and SSH are the user's."""

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self.folder, self.timeout = folder, timeout
        self._interrupt = _Interrupt()
        self._environ = _environment(os.environ if environ is None else environ)
        self._ssh_known = "GIT_SSH_COMMAND" in self._environ

    def interrupt(self) -> None:
        """Limit commands on this repository as the function `interrupt` does."""
        self._interrupt.begin()

    def command(self, *arguments: str) -> list[str]:
        return ["git", "--git-dir", str(self.folder), *OWN_CONFIG, *arguments]

    @property
    def environ(self) -> Mapping[str, str]:
        return child_environment(self._environ)

    def run(
        self, *arguments: str, stdin: bytes = b"", timeout: float | None = None
    ) -> CommandResult:
        """Run a command to its end. Raises GitError if git is not installed, GitAway on timeout,
        GitKilled.

        A command that takes too long is killed, with all that it started. One that SIGTERM ended
        runs again, unless it is a push.
        """
        try:
            return self._run(arguments, stdin, timeout)
        except GitKilled:
            if arguments[0] == "push":
                raise
            return self._run(arguments, stdin, timeout)

    def _run(self, arguments: Sequence[str], stdin: bytes, timeout: float | None) -> CommandResult:
        try:
            process = subprocess.Popen(
                self.command(*arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self.environ,
                start_new_session=True,  # Ctrl-C is ours to judge: a push may end
            )
        except FileNotFoundError as error:
            raise GitError("git is not installed here; install it and run again") from error
        started = time.monotonic()
        try:
            limit = started, self.timeout if timeout is None else min(timeout, self.timeout)
            out, err = self._communicate(process, stdin, *limit)
        except BaseException as error:
            _end(process)
            if isinstance(error, subprocess.TimeoutExpired):
                seconds = time.monotonic() - started
                raise GitAway(f"git {arguments[0]} has not ended in {seconds:.0f} s") from error
            raise
        if process.returncode == -signal.SIGTERM:
            raise GitKilled(f"SIGTERM ended git {arguments[0]}")
        return CommandResult(code=process.returncode, out=out, err=err.decode("utf-8", "replace"))

    def _communicate(
        self, process: subprocess.Popen[bytes], stdin: bytes, started: float, timeout: float
    ) -> tuple[bytes, bytes]:
        data: bytes | None = stdin
        while True:
            ends = (one.deadline(started, timeout) for one in (_interrupt, self._interrupt))
            remaining = min(ends) - time.monotonic()
            try:
                return process.communicate(data, timeout=max(0.0, min(remaining, _POLL_S)))
            except subprocess.TimeoutExpired:
                data = None  # it keeps what it has not sent
                if remaining <= 0.0:
                    for one in (_interrupt, self._interrupt):
                        one.note_timeout()
                    raise

    def run_remote(self, *arguments: str, timeout: float | None = None) -> CommandResult:
        """The same for a command that talks to a remote."""
        if not self._ssh_known:
            self._ssh_known = True
            ssh = self.run("config", "--get", "core.sshCommand").out.decode().strip()
            self._environ["GIT_SSH_COMMAND"] = f"{ssh or 'ssh'} {SSH_OPTIONS}"
        return self.run(*arguments, timeout=timeout)

    def output(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What a command prints. Raises GitError with git's own words where it fails."""
        ended = self.run(*arguments, stdin=stdin)
        if ended.code:
            raise GitError(f"git {arguments[0]} failed: {summarize_stderr(ended.err)}")
        return ended.out


def _end(process: subprocess.Popen[bytes]) -> None:
    """End its process group. On SIGTERM git removes its lock files."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=TERM_GRACE_S if how == signal.SIGTERM else None)
            return


def summarize_stderr(err: str) -> str:
    """The useful lines of git's error output, as one line."""
    lines = [line.strip() for line in err.splitlines()]
    texts = [
        line.removeprefix("fatal: ").removeprefix("error: ").removeprefix("remote: ")
        for line in lines
        if line and not line.startswith(("hint:", "To ", "Please make sure", "and the repository"))
    ]
    return "; ".join(dict.fromkeys(texts[:4])) or "no error message"


def init_bare_repository(folder: Path) -> None:
    """Make a bare repository, whole or not at all. Raises GitError."""
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    Git(folder).output(
        "init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(folder)
    )


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's, without what asks questions or leads elsewhere."""
    variables = {name: value for name, value in environ.items() if name not in FOREIGN_VARIABLES}
    if command := variables.get("GIT_SSH_COMMAND", ""):
        variables["GIT_SSH_COMMAND"] = f"{command} {SSH_OPTIONS}"
    elif command := variables.get("GIT_SSH", ""):
        variables["GIT_SSH_COMMAND"] = f"{shlex.quote(command)} {SSH_OPTIONS}"
    return {
        **variables,
        "GIT_TERMINAL_PROMPT": "0",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_ASKPASS": variables.get("GIT_ASKPASS", "true"),
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }
