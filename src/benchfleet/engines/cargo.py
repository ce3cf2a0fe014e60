"""What a cell needs of this machine's files, and bringing it to another host, once for each host.

A model's folder goes to ``<host.folder>/models/<digest>``, and the files of a user's own benchmark
to ``<host.folder>/files/<digest>`` under their whole path here, so that they stand to each other
as they do here. Whether they arrived as they are, the slot sees by the digests of the cell.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Kind
from benchfleet.domain.host import Host
from benchfleet.engines import commands
from benchfleet.engines.openssh import LOST, OpenSsh, destination
from benchfleet.engines.store import END, SILENCE
from benchfleet.errors import BenchfleetError

_CONNECTION = {LOST, 10, 12, 30, 35}  # exit codes of ssh and rsync where that broke
_GRACE = 5.0  # seconds for a process that said its last to end


class NotDelivered(BenchfleetError):
    """What a cell needs cannot be brought to its host."""

    def __init__(self, message: str, *, kind: Kind = "error") -> None:
        self.kind = kind
        super().__init__(message)


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """Something to be brought to a host."""

    name: str  # where it goes, under the host's folder
    folder: Path | None = None  # a whole folder, or
    files: tuple[Path, ...] = ()  # single files, under their whole path; folders are made empty


def model_parcel(cell: Cell) -> Parcel | None:
    """The folder of the cell's model; None where its source is no folder here."""
    model = cell.model
    folder = Path(model.source).expanduser()
    if not model.source or not folder.is_dir():
        return None
    return Parcel(name=f"models/{path_digest(model.digest)}", folder=folder.absolute())


def files_parcel(cell: Cell) -> Parcel | None:
    """The files of the user's own that its benchmark reads; None where there are none. Raises
    NotDelivered where they cannot be read."""
    work = cell.workload
    if not work.data_digest:
        return None
    try:
        found = benchmark_class(work.benchmark)({**work.params, **work.outside}).files(work.subset)
    except (ValueError, OSError) as error:
        raise NotDelivered(f"{work.name}: {error}", kind="user_error") from error
    files = tuple(dict.fromkeys(Path(os.path.abspath(file)) for file in found))  # each once
    if not files:
        return None
    name = content_digest([work.data_digest, [str(file) for file in files]])
    return Parcel(name=f"files/{path_digest(name)}", files=files)


def moved(cell: Cell, *, model: str, files: str) -> Cell:
    """The same cell where its model lies at `model`, and its files under `files`; ``""`` leaves
    either as it is. What it is stays the same: places are no part of its identity."""
    if model:
        cell = replace(cell, model=replace(cell.model, source=model))
    if files:
        outside = {name: _under(files, value) for name, value in cell.workload.outside.items()}
        cell = replace(cell, workload=replace(cell.workload, outside=outside))
    return cell


def elsewhere(path: Path, paths: Mapping[str, str]) -> str:
    """Where the host has it by itself, as its inventory says; ``""`` where that says nothing."""
    for here, there in sorted(paths.items(), key=lambda pair: -len(pair[0])):
        base = Path(here).expanduser().absolute()
        if path == base or base in path.parents:
            return (Path(there) / path.relative_to(base)).as_posix()
    return ""


def path_digest(text: str) -> str:
    """A short name for what has this digest."""
    return content_digest(text)[:16]


class Courier:
    """Brings things to one host, one after another; what it has brought it knows.

    `deliver` blocks for as long as it takes, until `stop` ends it from another thread.
    """

    def __init__(self, host: Host, ssh: OpenSsh) -> None:
        self._host, self._ssh = host, ssh
        self._there: dict[str, str] = {}  # the path there, by parcel
        self._delivering = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def known(self, cell: Cell) -> Cell | None:
        """The cell as it is to be run there; None where something has to be brought first."""
        places = []
        for parcel in (model_parcel(cell), files_parcel(cell)):
            place = self._there.get(parcel.name) if parcel else ""
            if place is None:
                return None
            places.append(place)
        return moved(cell, model=places[0], files=places[1])

    def deliver(self, cell: Cell) -> Cell:
        """Bring what is lacking; the cell as it is to be run there. Raises NotDelivered with what
        to do."""
        places = []
        with self._delivering:
            for parcel in (model_parcel(cell), files_parcel(cell)):
                place = self._there.get(parcel.name) if parcel else ""
                if place is None and parcel is not None:
                    place = self._there[parcel.name] = self._bring(parcel)
                places.append(place or "")
        return moved(cell, model=places[0], files=places[1])

    def forget(self) -> None:
        """The host was away: whatever it had may be gone."""
        self._there.clear()

    def stop(self) -> None:
        """End what is under way."""
        self._stopped = True
        for process in list(self._processes):
            process.kill()

    def _bring(self, parcel: Parcel) -> str:
        if parcel.folder is not None and (there := elsewhere(parcel.folder, self._host.paths)):
            return self._seen(there)
        words = commands.receive(self._host, parcel.name)
        with self._started(self._ssh.argv(self._host, words)) as running:
            try:
                if place := self._handed_over(running.process, parcel):
                    return place
            except (OSError, tarfile.TarError) as error:
                running.note(error)
            what = parcel.folder or parcel.files[0]
            why = f"{what} could not be sent to {self._host.name}: {running.why()}"
            raise NotDelivered(why, kind=running.kind())

    def _handed_over(self, process: subprocess.Popen[bytes], parcel: Parcel) -> str:
        """Where it lies now, in the words of the store there; ``""`` where it gave up."""
        told = cast(IO[bytes], process.stdin)
        word, place = _said(process)
        if word == "want":
            place, _, means = place.rpartition(" ")
            if parcel.folder is not None and means == "rsync" and shutil.which("rsync"):
                self._rsync(parcel.folder, f"{place}.part", told)
                told.write(b"rsynced\n")
            else:
                told.write(b"tar\n")
                _pack(parcel, told)
            told.close()
            word, place = _said(process)
        return place if word == "have" else ""

    def _rsync(self, folder: Path, place: str, told: IO[bytes]) -> None:
        """What was sent before it broke off is not sent again. The store is told meanwhile that
        somebody is still here."""
        shell = shlex.join(["ssh", *self._ssh.options(self._host)])
        name = destination(self._host)
        target = f"[{name}]:{place}/" if ":" in name else f"{name}:{place}/"
        options = ["-rLt", "--partial", "--delete", "--chmod=u+rw", "-s", "-e", shell]
        with self._started(["rsync", *options, "--", f"{folder}/", target]) as running:
            while running.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.process.wait(SILENCE / 4)
                told.write(b"\n")
                told.flush()
            if running.process.returncode:
                why = f"rsync of {folder} to {self._host.name}: {running.why()}"
                raise NotDelivered(why, kind=running.kind())

    def _seen(self, place: str) -> str:
        """The whole path of what it has by itself; adapters know nothing of ``~``."""
        words = commands.look(self._host, place)
        with self._started(self._ssh.argv(self._host, words)) as running:
            word, found = _said(running.process)
            if word == "have":
                return found
            if word != "none":
                why = f"{self._host.name} does not tell: {running.why()}"
                raise NotDelivered(why, kind=running.kind())
        raise NotDelivered(
            f"{self._host.name} has no {place}, where the inventory's paths say that it "
            "has the model; correct them, or leave the path out and it is sent",
            kind="model_not_found",
        )

    @contextlib.contextmanager
    def _started(self, words: Sequence[str]) -> Iterator[_Running]:
        """A process that `stop` ends, and that ends with the block at the latest."""
        with tempfile.TemporaryFile() as heard:  # a shared connection may hold on to a pipe
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=heard, start_new_session=True
            )
            self._processes.add(process)
            if self._stopped:
                process.kill()
            try:
                yield _Running(process, heard)
            finally:
                self._processes.discard(process)
                process.kill()
                with contextlib.suppress(BrokenPipeError):  # what nobody hears any more
                    process.__exit__(None, None, None)


class _Running:
    """A process, and what it complained of."""

    def __init__(self, process: subprocess.Popen[bytes], heard: IO[bytes]) -> None:
        self.process, self._heard = process, heard

    def note(self, error: Exception) -> None:
        """Something went wrong on this side."""
        self._heard.write(f"\n{error}".encode())

    def kind(self) -> Kind:
        """Whether it was the connection, once the process has ended."""
        code = self.process.poll()
        return "host_lost" if code in _CONNECTION or (code or 0) < 0 else "error"

    def why(self) -> str:
        """The last thing said that tells something, once the process has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        self._heard.seek(0)
        lines = self._heard.read().decode("utf-8", "replace").strip().splitlines()
        telling = [line for line in lines if not line.startswith("rsync error: some files")]
        lines = telling or lines
        return lines[-1].strip() if lines else f"exit code {self.process.returncode}"


def _said(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """The next word of the store and what follows it; a login's greetings are passed over."""
    stream = cast(IO[bytes], process.stdout)
    while line := stream.readline(2**16):
        word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
        if word in ("want", "have", "none"):
            return word, rest
    return "", ""


def _pack(parcel: Parcel, stream: IO[bytes]) -> None:
    """An archive of files and folders alone: what a link stands for, not the link."""
    with tarfile.open(fileobj=stream, mode="w|", dereference=True) as archive:
        if parcel.folder is not None:
            archive.add(parcel.folder, arcname=".", recursive=True)
        for file in parcel.files:
            archive.add(file, arcname=str(file).lstrip("/"), recursive=False)
        archive.addfile(tarfile.TarInfo(END))


def _under(root: str, value: object) -> object:
    if isinstance(value, str) and os.path.isabs(expanded := os.path.expanduser(value)):
        return root + os.path.abspath(expanded)
    return value
