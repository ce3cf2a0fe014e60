"""Sends the files that a cell needs to another host, once for each host.

A model's folder goes to ``<host.folder>/models/<digest>``, a model that is one file into such a
folder of its own, and the files of a user's own benchmark
to ``<host.folder>/files/<digest>`` under their whole path here, so that they stand to each other
as they do here. They are sent only as they were when the campaign was read: before the host keeps
them, their digest is compared with that of the cell.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from benchfleet.domain.cell import Cell
from benchfleet.domain.error_signatures import find_error_signature
from benchfleet.domain.failure import Kind
from benchfleet.domain.host import Host
from benchfleet.engines import commands
from benchfleet.engines.bundles import (
    Bundle,
    ProvisionFailed,
    files_bundle,
    model_bundle,
    relocated,
)
from benchfleet.engines.openssh import LOST, OpenSsh, destination
from benchfleet.engines.provision_receiver import END, SILENCE_S
from benchfleet.environment import child_environment

CONNECTION_ERRORS = {LOST, 10, 12, 30, 35}  # exit codes of ssh and rsync
_OF_SENDER = re.compile(r"\[sender\]|has no referent")  # rsync could not read a file here
EXIT_GRACE_S = 5.0  # for a process that closed its output


def mapped_path(path: Path, paths: Mapping[str, str]) -> str:
    """The path on the host by the inventory's `paths`; ``""`` where none of them applies."""
    for local_root, remote_root in sorted(paths.items(), key=lambda pair: -len(pair[0])):
        base = Path(local_root).expanduser().absolute()
        if path == base or base in path.parents:
            return (Path(remote_root) / path.relative_to(base)).as_posix()
    return ""


class FileSync:
    """Sends bundles to one host, one after another, and remembers which it has sent.

    `send` blocks for as long as it takes, or until another thread calls `stop`.
    """

    def __init__(self, host: Host, ssh: OpenSsh) -> None:
        self._host, self._ssh = host, ssh
        self._paths: dict[str, str] = {}  # the path there, by bundle
        self._sending = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def located(self, cell: Cell) -> Cell | None:
        """The cell with its paths there; None where something must be sent first."""
        model, files = (
            self._paths.get(bundle.name) if bundle else ""
            for bundle in (model_bundle(cell), files_bundle(cell))
        )
        if model is None or files is None:
            return None
        return relocated(cell, model=model, files=files)

    def send(self, cell: Cell) -> Cell:
        """Send what is missing; the cell with its paths there. Raises ProvisionFailed with what to
        do."""
        with self._sending:
            model, files = (
                self._path(bundle) if bundle else ""
                for bundle in (model_bundle(cell), files_bundle(cell))
            )
        return relocated(cell, model=model, files=files)

    def forget(self) -> None:
        """Forget what was sent: the host was lost, and its files may be too."""
        self._paths.clear()

    def stop(self) -> None:
        """End the transfer under way."""
        self._stopped = True
        for process in list(self._processes):
            process.kill()

    def _path(self, bundle: Bundle) -> str:
        """Its path on the host; sends it first if needed."""
        path = self._paths.get(bundle.name)
        if path is None:
            mapped = mapped_path(bundle.model, self._host.paths) if bundle.model else ""
            path = self._find(mapped) if mapped else self._transfer(bundle)
            if bundle.model and bundle.model.is_file() and not mapped:
                path = f"{path}/{bundle.model.name}"
            self._paths[bundle.name] = path
        return path

    def _transfer(self, bundle: Bundle) -> str:
        words = commands.receive(self._host, bundle.name)
        with self._started(self._ssh.argv(self._host, words)) as running:
            try:
                if path := self._hand_over(running.process, bundle):
                    return path
            except (OSError, tarfile.TarError) as error:
                if isinstance(error, OSError) and error.filename:  # a file here, not the connection
                    message = f"{error.filename} cannot be sent: {error.strerror}"
                    raise ProvisionFailed(message, kind="user_error") from error
                running.note(error)
            what = bundle.model or bundle.files[0]
            why = f"{what} could not be sent to {self._host.name}: {running.why()}"
            raise ProvisionFailed(why, kind=running.kind())

    def _hand_over(self, receiver: subprocess.Popen[bytes], bundle: Bundle) -> str:
        """The receiver's path; ``""`` where it failed."""
        stdin = cast(IO[bytes], receiver.stdin)
        word, path = _reply(receiver)
        if word == "want":
            bundle.check()
            path, _, means = path.rpartition(" ")
            if bundle.model is not None and means == "rsync" and shutil.which("rsync"):
                self._rsync(bundle.model, f"{path}.part", stdin)
                bundle.check()
                stdin.write(b"rsynced\n")
            else:
                stdin.write(b"tar\n")
                _pack(bundle, stdin)
            stdin.close()
            word, path = _reply(receiver)
        return path if word == "have" else ""

    def _rsync(self, model: Path, path: str, receiver: IO[bytes]) -> None:
        """Rsync resumes a transfer that broke off, whose files it compares by content (`-I`). The
        receiver is kept alive meanwhile."""
        shell = shlex.join(["ssh", *self._ssh.options(self._host)])
        name = destination(self._host)
        target = f"[{name}]:{path}/" if ":" in name else f"{name}:{path}/"
        options = ["-rLtI", "--partial", "--delete", "--chmod=u+rw", "-s", "-e", shell]
        source = f"{model}/" if model.is_dir() else str(model)
        with self._started(["rsync", *options, "--", source, target]) as running:
            while running.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.process.wait(SILENCE_S / 4)
                receiver.write(b"\n")
                receiver.flush()
            if running.process.returncode:
                why = f"rsync of {model} to {self._host.name}: {running.why()}"
                raise ProvisionFailed(why, kind=running.kind())

    def _find(self, path: str) -> str:
        """The absolute path of what the host has already; adapters do not expand ``~``."""
        words = commands.find_model(self._host, path)
        with self._started(self._ssh.argv(self._host, words)) as running:
            word, remote_path = _reply(running.process)
            if word == "have":
                return remote_path
            if word != "none":
                why = f"{self._host.name} did not answer: {running.why()}"
                raise ProvisionFailed(why, kind=running.kind())
        raise ProvisionFailed(
            f"{self._host.name} has no {path}, where the inventory's paths say that it "
            "has the model; correct them, or leave the path out and it is sent",
            kind="model_not_found",
        )

    @contextlib.contextmanager
    def _started(self, words: Sequence[str]) -> Iterator[_Running]:
        """A process that `stop` ends, and that ends with the block at the latest."""
        with tempfile.TemporaryFile() as stderr:  # a shared connection may hold on to a pipe
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                words,
                stdin=pipe,
                stdout=pipe,
                stderr=stderr,
                start_new_session=True,
                env=child_environment(),
            )
            self._processes.add(process)
            if self._stopped:
                process.kill()
            try:
                yield _Running(process, stderr)
            finally:
                self._processes.discard(process)
                process.kill()
                with contextlib.suppress(BrokenPipeError):  # nobody reads it any more
                    process.__exit__(None, None, None)


class _Running:
    """A process, and its errors."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
        self.process, self._stderr = process, stderr

    def note(self, error: Exception) -> None:
        """Add an error of this side."""
        self._stderr.write(f"\n{error}".encode())

    def kind(self) -> Kind:
        """The kind of its failure, once the process has ended."""
        code = self.process.poll()
        if code in CONNECTION_ERRORS or (code or 0) < 0:
            return "host_lost"
        text = "\n".join(self._lines())
        if _OF_SENDER.search(text):
            return "user_error"
        sign = find_error_signature(text)
        return "disk_full" if sign and sign.kind == "disk_full" else "error"

    def _lines(self) -> list[str]:
        self._stderr.seek(0)
        return self._stderr.read().decode("utf-8", "replace").strip().splitlines()

    def why(self) -> str:
        """The last line of its errors that says something, once the process has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_GRACE_S)
        lines = self._lines()
        informative = [line for line in lines if not line.startswith("rsync error: some files")]
        lines = informative or lines
        return lines[-1].strip() if lines else f"exit code {self.process.returncode}"


def _reply(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """The receiver's next word and what follows it; a login's greetings are skipped."""
    stream = cast(IO[bytes], process.stdout)
    while line := stream.readline(2**16):
        word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
        if word in ("want", "have", "none"):
            return word, rest
    return "", ""


def _pack(bundle: Bundle, stream: IO[bytes]) -> None:
    """An archive of files and folders alone: what a link stands for, not the link."""
    with tarfile.open(fileobj=stream, mode="w|", dereference=True) as archive:
        if bundle.model is not None:
            name = "." if bundle.model.is_dir() else bundle.model.name
            archive.add(bundle.model, arcname=name, recursive=True)
        for file in bundle.files:
            archive.add(file, arcname=str(file).lstrip("/"), recursive=False)
        bundle.check()  # without the end, the receiver keeps nothing
        archive.addfile(tarfile.TarInfo(END))
