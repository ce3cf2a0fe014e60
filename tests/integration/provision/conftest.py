"""A file_sync to the test's own sshd, and models for it to bring."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.benchmarks.command import Command
from benchfleet.domain.cell import Cell
from benchfleet.engines import provision
from benchfleet.engines.bundles import Bundle
from benchfleet.engines.openssh import OpenSsh, connections
from benchfleet.engines.provision import FileSync
from benchfleet.models.none import NoAdapter
from benchfleet.testing.sample_cells import sample_cell
from sshd import Sshd

MakeSync = Callable[..., FileSync]


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[OpenSsh]:
    with connections(tmp_path / "known" / "known_hosts") as ssh:
        yield ssh


@pytest.fixture
def file_sync(sshd: Sshd, ssh: OpenSsh, tmp_path: Path) -> MakeSync:
    """Makes file syncs to one host that keeps its things in a folder of this test."""

    def made(**changes: str) -> FileSync:
        return FileSync(sshd.host(**{"folder": str(tmp_path / "far"), **changes}), ssh)

    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder as the hub's cache has it: links to files that lie mapped_path."""
    blobs, folder = tmp_path / "blobs", tmp_path / "models--org--tiny" / "snapshots" / "abc"
    blobs.mkdir()
    (folder / "nested ü").mkdir(parents=True)
    for name in ("config.json", "weights 1.safetensors", "nested ü/vocab.txt"):
        blob = blobs / name.replace("/", "-")
        blob.write_bytes(name.encode() * 1000)
        (folder / name).symlink_to(blob)
    (folder / "empty.txt").touch()
    (folder / "none").mkdir()
    return folder


def cell_of(model: Path) -> Cell:
    plain = sample_cell(source=str(model), digest=NoAdapter.digest(str(model)))
    return replace(plain, model=replace(plain.model, adapter="none"))


def cell_of_script(script: Path, **more: str) -> Cell:
    """A cell that runs this script."""
    outside = {"folder": str(script.parent), **more}
    params = {"name": "own", "argv": ["python3", script.name]}
    digest = Command({**params, **outside}).data_digest(None)
    plain = sample_cell(benchmark="command", outside=outside)
    return replace(plain, workload=replace(plain.workload, params=params, data_digest=digest))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, which may hold no link: files by their content, folders as None."""
    found = {}
    for path in folder.rglob("*"):
        assert not path.is_symlink()
        name = path.relative_to(folder).as_posix()
        found[name] = path.read_bytes() if path.is_file() else None
    return found


def followed(folder: Path) -> dict[str, bytes | None]:
    """What a folder holds, with what its links stand for."""
    found = folder.rglob("*")
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in found
    }


def without_rsync(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this side find ssh and nothing else."""
    folder.mkdir()
    (folder / "ssh").symlink_to(str(shutil.which("ssh")))
    monkeypatch.setenv("PATH", str(folder))


def packed(folder: Path) -> bytes:
    """What a file_sync sends of a folder where there is no rsync."""
    stream = io.BytesIO()
    provision._pack(Bundle(name="m", model=folder), stream)
    return b"tar\n" + stream.getvalue()
