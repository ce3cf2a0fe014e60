"""Models and files sent to a host: once, whole or not at all, and never beyond its store."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.benchmarks.command import Command
from benchfleet.domain.cell import Cell
from benchfleet.engines import cargo
from benchfleet.engines.cargo import Courier, NotDelivered, Parcel, files_parcel, model_parcel
from benchfleet.engines.openssh import OpenSsh, connections
from benchfleet.engines.store import END, receive
from benchfleet.testing.samples import sample_cell
from sshd import Sshd

Wanted = Callable[..., Courier]
RECEIVING = [sys.executable, "-c", "import sys; from benchfleet.engines.store import END, receive; "
             "receive(*sys.argv[1:])"]  # fmt: skip


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[OpenSsh]:
    with connections(tmp_path / "known" / "known_hosts") as ssh:
        yield ssh


@pytest.fixture
def courier(sshd: Sshd, ssh: OpenSsh, tmp_path: Path) -> Wanted:
    """Makes couriers to one host that keeps its things in a folder of this test."""

    def made(**changes: object) -> Courier:
        return Courier(sshd.host(**{"folder": str(tmp_path / "far"), **changes}), ssh)

    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder as the hub's cache has it: links to files that lie elsewhere."""
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
    return sample_cell(source=str(model), digest="a digest")


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


def python_without_rsync(folder: Path, python: str) -> str:
    """A Python for the far side which finds no programs."""
    place = folder / "python-without-path"
    place.write_text(f'#!/bin/sh\nPATH=/nowhere exec {python} "$@"\n')
    place.chmod(0o755)
    return str(place)


@pytest.mark.parametrize("lacking", ["", "here", "there"])
def test_a_model_arrives_as_files_and_is_sent_once(
    courier: Wanted,
    sshd: Sshd,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lacking: str,
) -> None:
    if lacking == "here":
        without_rsync(tmp_path / "bin", monkeypatch)
    changes: dict[str, object] = {}
    if lacking == "there":
        changes["python"] = python_without_rsync(tmp_path, sshd.host().python)
    packed = counted(monkeypatch)
    sender = courier(**changes)
    assert sender.known(cell_of(model)) is None
    there = Path(sender.deliver(cell_of(model)).model.source)
    assert there.parent == tmp_path / "far" / "models"
    assert contents(there) == followed(model)
    assert len(packed) == (1 if lacking else 0)

    before = there.stat()
    assert sender.known(cell_of(model)) == sender.deliver(cell_of(model))
    other = courier(**changes)  # that of another run
    assert Path(other.deliver(cell_of(model)).model.source) == there
    assert there.stat() == before
    assert len(packed) == (1 if lacking else 0)
    assert {path.name for path in there.parent.iterdir()} == {there.name, f"{there.name}.lock"}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Parcel]:
    """The parcels that are packed from now on."""
    packed, pack = [], cargo._pack

    def counting(parcel: Parcel, stream: io.BufferedIOBase) -> None:
        packed.append(parcel)
        time.sleep(0.3)  # so that who else wants it asks meanwhile
        pack(parcel, stream)  # type: ignore[arg-type]

    monkeypatch.setattr(cargo, "_pack", counting)
    return packed


def test_two_who_want_the_same_at_once_have_it_sent_once(
    courier: Wanted, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_rsync(tmp_path / "bin", monkeypatch)
    packed = counted(monkeypatch)
    one, other = courier(), courier()
    with ThreadPoolExecutor(4) as threads:
        wanted = [threads.submit(each.deliver, cell_of(model)) for each in (one, other, one, other)]
        places = {each.result(60).model.source for each in wanted}
    assert len(places) == 1
    assert contents(Path(places.pop())) == followed(model)
    assert len(packed) == 1


@pytest.mark.parametrize("with_rsync", [True, False])
def test_a_delivery_that_is_stopped_ends_and_the_next_one_completes(
    courier: Wanted, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_rsync: bool
) -> None:
    (model / "large.bin").write_bytes(os.urandom(2**20) * 200)
    if not with_rsync:
        without_rsync(tmp_path / "bin", monkeypatch)
    stopped, store = courier(), tmp_path / "far" / "models"
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(stopped.deliver, cell_of(model))
        until(
            lambda: (
                any(file.stat().st_size for file in store.glob("*.part/*large*"))
                or any(file.stat().st_size for file in store.glob("*.part/.*large*"))
            )
        )
        stopped.stop()
        with pytest.raises(NotDelivered, match="abc"):
            running.result(30)
    assert [path.name for path in store.iterdir() if path.suffix not in {".part", ".lock"}] == []
    there = Path(courier().deliver(cell_of(model)).model.source)
    assert contents(there) == followed(model)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_what_a_broken_delivery_left_is_made_right(
    courier: Wanted, model: Path, tmp_path: Path
) -> None:
    parcel = model_parcel(cell_of(model))
    assert parcel is not None
    part = tmp_path / "far" / f"{parcel.name}.part"
    (part / "nested ü").mkdir(parents=True)
    (part / "config.json").write_bytes(b"half")
    (part / "nested ü" / "left over").touch()
    there = Path(courier().deliver(cell_of(model)).model.source)
    assert contents(there) == followed(model)


def test_a_model_that_the_host_has_by_itself_is_used_where_it_lies(
    courier: Wanted, model: Path, tmp_path: Path, sshd: Sshd
) -> None:
    own = tmp_path / "own models" / "snapshots"
    shutil.copytree(model, own / "abc")
    paths = {str(model.parents[1]): str(own.parent)}
    delivered = courier(paths=paths).deliver(cell_of(model))
    assert delivered.model.source == str(own / "abc")
    assert not list((tmp_path / "far").rglob("abc"))
    at_home = {str(model): "~/" + os.path.relpath(own / "abc", sshd.folder / "home")}
    found = Path(courier(paths=at_home).deliver(cell_of(model)).model.source)
    assert found.is_absolute()
    assert found.samefile(own / "abc")
    shutil.rmtree(own / "abc")
    with pytest.raises(NotDelivered, match=r"lab1 has no .*own models.*inventory's paths"):
        courier(paths=paths).deliver(cell_of(model))
    with pytest.raises(NotDelivered, match=r"lab1 does not tell: .*refused"):
        courier(paths=paths, port=1).deliver(cell_of(model))


def test_a_host_that_was_away_is_asked_again(courier: Wanted, model: Path, tmp_path: Path) -> None:
    sender = courier()
    there = Path(sender.deliver(cell_of(model)).model.source)
    shutil.rmtree(there)
    sender.forget()
    assert contents(Path(sender.deliver(cell_of(model)).model.source)) == followed(model)


def test_a_store_that_takes_nothing_is_told_of(
    courier: Wanted, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "far").write_text("a file where the folder should be")
    with pytest.raises(NotDelivered, match=r"abc could not be sent to lab1: .*far"):
        courier().deliver(cell_of(model))


def test_a_link_that_leads_nowhere_is_named(
    courier: Wanted, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model / "gone.bin").symlink_to("/no/such/blob")
    with pytest.raises(NotDelivered, match=r"gone\.bin"):
        courier().deliver(cell_of(model))
    without_rsync(tmp_path / "bin", monkeypatch)
    with pytest.raises(NotDelivered, match=r"/no/such/blob|gone\.bin"):
        courier(folder=str(tmp_path / "far2")).deliver(cell_of(model))


def test_the_files_of_a_benchmark_arrive_under_their_whole_path(
    courier: Wanted, tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    (folder / "data").mkdir(parents=True)
    (folder / "measure.py").write_text("print(1)")
    (folder / "data" / "one.csv").write_text("1")
    (folder / "unasked").write_text("2")
    outside = {"folder": str(folder)}
    params = {
        "name": "own",
        "argv": ["python3", "measure.py"],
        "files": ["data/*.csv", "measure.*"],
    }
    digest = Command({**params, **outside}).data_digest(None)
    plain = sample_cell(benchmark="command", outside=outside)
    cell = replace(plain, workload=replace(plain.workload, params=params, data_digest=digest))
    assert files_parcel(cell) is not None
    delivered = courier().deliver(cell)
    place = Path(str(delivered.workload.outside["folder"]))
    assert place.is_relative_to(tmp_path / "far" / "files")
    assert str(place).endswith(str(folder))
    found = {name for name, content in contents(place).items() if content is not None}
    assert found == {"measure.py", "data/one.csv"}
    assert Command({**params, **delivered.workload.outside}).data_digest(None) == digest
    assert delivered.fingerprint == cell.fingerprint


# What the store does with what comes


def sent_to(
    store: Path, data: bytes, monkeypatch: pytest.MonkeyPatch, name: str = "models/m"
) -> None:
    with tempfile.TemporaryFile() as said:
        said.write(data)
        said.seek(0)
        monkeypatch.setattr("sys.stdin", said)
        receive(str(store), name)


def packed(folder: Path) -> bytes:
    """What a courier sends of a folder where there is no rsync."""
    stream = io.BytesIO()
    cargo._pack(Parcel(name="m", folder=folder), stream)
    return b"tar\n" + stream.getvalue()


def test_an_archive_cut_anywhere_never_looks_whole(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = packed(model)
    for size in [0, 2, 4, 5, *range(4, len(whole.rstrip(b"\0")), 512)]:
        with pytest.raises((SystemExit, tarfile.TarError)):
            sent_to(tmp_path / "store", whole[:size], monkeypatch)
        assert not (tmp_path / "store" / "models" / "m").exists()
    sent_to(tmp_path / "store", whole, monkeypatch)
    assert contents(tmp_path / "store" / "models" / "m") == followed(model)


def test_a_sender_that_goes_away_in_the_middle_leaves_no_whole_thing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = packed(model)
    with subprocess.Popen(
        [*RECEIVING, tmp_path / "store", "models/m"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.communicate(whole[: len(whole) // 2], timeout=30)
    assert process.returncode != 0
    assert not (tmp_path / "store" / "models" / "m").exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../outside", tarfile.REGTYPE),
        ("inner/../../outside", tarfile.REGTYPE),
        ("..", tarfile.DIRTYPE),
        ("ABSOLUTE", tarfile.REGTYPE),
        ("ABSOLUTE", tarfile.DIRTYPE),
    ],
)
def test_an_archive_cannot_name_what_lies_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: bytes
) -> None:
    outside = str(tmp_path / "outside")
    hostile = archive((name.replace("ABSOLUTE", outside), kind, ""))
    with pytest.raises(SystemExit, match="would leave the store"):
        sent_to(tmp_path / "store", hostile, monkeypatch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
    assert not (tmp_path / "store" / "models" / "m").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_an_archive_cannot_go_through_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: bytes
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("mine")
    hostile = archive(
        ("way", kind, str(tmp_path / "outside")),
        ("way/secret", tarfile.REGTYPE, ""),
        ("way/new", tarfile.REGTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
    )
    sent_to(tmp_path / "store", hostile, monkeypatch)
    assert (tmp_path / "outside" / "secret").read_text() == "mine"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]
    assert set(contents(tmp_path / "store" / "models" / "m")) == {"way", "way/secret", "way/new"}


def archive(*members: tuple[str, bytes, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w|") as made:
        for name, kind, target in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = kind, target, 0o777
            entry.size = 5 if kind == tarfile.REGTYPE else 0
            made.addfile(entry, io.BytesIO(b"their"))
        made.addfile(tarfile.TarInfo(END))
    return b"tar\n" + stream.getvalue()


def test_who_waits_for_a_thing_goes_on_when_its_sender_dies(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is the kernel's, so that nobody has to take it from the dead."""
    store = tmp_path / "store"
    holder = subprocess.Popen(
        [*RECEIVING, store, "models/m"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().startswith(b"want ")
        waiting = threading.Thread(target=sent_to, args=(store, packed(model), monkeypatch))
        waiting.start()
        time.sleep(0.2)
        assert not (store / "models" / "m").exists()
        holder.kill()
        waiting.join(30)
        assert not waiting.is_alive()
    assert contents(store / "models" / "m") == followed(model)


def test_a_connection_that_cannot_be_had_is_not_the_cells_fault(
    own_sshd: Sshd, ssh: OpenSsh, model: Path
) -> None:
    own_sshd.kill()
    with pytest.raises(NotDelivered, match="could not be sent") as broken:
        Courier(own_sshd.host(), ssh).deliver(cell_of(model))
    assert broken.value.kind == "host_lost"


def test_a_sender_that_falls_silent_is_given_up_and_holds_up_no_other(tmp_path: Path) -> None:
    code = (
        "import sys; from benchfleet.engines import store; store.SILENCE = 0.5; "
        "store.receive(*sys.argv[1:])"
    )
    words = [sys.executable, "-c", code, str(tmp_path), "models/m"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as silent:
        assert silent.stdout is not None
        assert silent.stdout.readline().startswith("want ")
        assert silent.wait(timeout=60) != 0  # though its input is open
        assert silent.stderr is not None
        wrong = silent.stderr.read()
    assert "went away" in wrong
    assert not (tmp_path / "models" / "m").exists()
