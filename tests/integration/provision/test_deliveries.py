"""Models and files sent to a host: once, whole or not at all."""

from __future__ import annotations

import io
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.benchmarks.command import Command
from benchfleet.engines import provision
from benchfleet.engines.bundles import Bundle, ProvisionFailed, files_bundle, model_bundle
from benchfleet.engines.openssh import OpenSsh
from benchfleet.engines.provision import FileSync
from benchfleet.testing.sample_cells import sample_cell
from sshd import Sshd

from .conftest import MakeSync, cell_of, cell_of_script, contents, followed, without_rsync


def python_without_rsync(folder: Path, python: str) -> str:
    """A Python for the far side which finds no programs."""
    place = folder / "python-without-path"
    place.write_text(f'#!/bin/sh\nPATH=/nowhere exec {python} "$@"\n')
    place.chmod(0o755)
    return str(place)


@pytest.mark.parametrize("lacking", ["", "here", "there"])
def test_a_model_arrives_as_files_and_is_sent_once(
    file_sync: MakeSync,
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
    sender = file_sync(**changes)
    assert sender.located(cell_of(model)) is None
    there = Path(sender.send(cell_of(model)).model.source)
    assert there.parent == tmp_path / "far" / "models"
    assert contents(there) == followed(model)
    assert len(packed) == (1 if lacking else 0)

    before = there.stat()
    assert sender.located(cell_of(model)) == sender.send(cell_of(model))
    other = file_sync(**changes)  # that of another run
    assert Path(other.send(cell_of(model)).model.source) == there
    assert there.stat() == before
    assert len(packed) == (1 if lacking else 0)
    assert {path.name for path in there.parent.iterdir()} == {there.name, f"{there.name}.lock"}


@pytest.mark.parametrize("lacking", ["", "here"])
def test_a_model_that_is_one_file_arrives_under_its_name(
    file_sync: MakeSync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    if lacking:
        without_rsync(tmp_path / "bin", monkeypatch)
    file = tmp_path / "tiny ü.gguf"
    file.write_bytes(b"GGUF" * 1000)
    sender = file_sync()
    there = Path(sender.send(cell_of(file)).model.source)
    assert (there.name, there.parent.parent) == (file.name, tmp_path / "far" / "models")
    assert there.read_bytes() == file.read_bytes()
    assert sender.located(cell_of(file)) == sender.send(cell_of(file))
    assert file_sync().send(cell_of(file)).model.source == str(there)
    mapped = file_sync(paths={str(tmp_path): str(tmp_path)}).send(cell_of(file))
    assert mapped.model.source == str(file)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Bundle]:
    """The parcels that are packed from now on."""
    packed, pack = [], provision._pack

    def counting(bundle: Bundle, stream: io.BufferedIOBase) -> None:
        packed.append(bundle)
        time.sleep(0.3)  # so that who else wants it asks meanwhile
        pack(bundle, stream)  # type: ignore[arg-type]

    monkeypatch.setattr(provision, "_pack", counting)
    return packed


def test_two_who_want_the_same_at_once_have_it_sent_once(
    file_sync: MakeSync, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_rsync(tmp_path / "bin", monkeypatch)
    packed = counted(monkeypatch)
    one, other = file_sync(), file_sync()
    with ThreadPoolExecutor(4) as threads:
        wanted = [threads.submit(each.send, cell_of(model)) for each in (one, other, one, other)]
        places = {each.result(60).model.source for each in wanted}
    assert len(places) == 1
    assert contents(Path(places.pop())) == followed(model)
    assert len(packed) == 1


@pytest.mark.parametrize("with_rsync", [True, False])
def test_a_delivery_that_is_stopped_ends_and_the_next_one_completes(
    file_sync: MakeSync,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_rsync: bool,
) -> None:
    (model / "large.bin").write_bytes(os.urandom(2**20) * 200)
    if not with_rsync:
        without_rsync(tmp_path / "bin", monkeypatch)
    stopped, store = file_sync(), tmp_path / "far" / "models"
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(stopped.send, cell_of(model))
        until(
            lambda: (
                any(file.stat().st_size for file in store.glob("*.part/*large*"))
                or any(file.stat().st_size for file in store.glob("*.part/.*large*"))
            )
        )
        stopped.stop()
        with pytest.raises(ProvisionFailed, match="abc"):
            running.result(30)
    assert [path.name for path in store.iterdir() if path.suffix not in {".part", ".lock"}] == []
    there = Path(file_sync().send(cell_of(model)).model.source)
    assert contents(there) == followed(model)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_what_a_broken_delivery_left_is_made_right(
    file_sync: MakeSync, model: Path, tmp_path: Path
) -> None:
    bundle = model_bundle(cell_of(model))
    assert bundle is not None
    part = tmp_path / "far" / f"{bundle.name}.part"
    (part / "nested ü").mkdir(parents=True)
    (part / "config.json").write_bytes(b"half")
    (part / "nested ü" / "left over").touch()
    there = Path(file_sync().send(cell_of(model)).model.source)
    assert contents(there) == followed(model)


def test_a_model_that_the_host_has_by_itself_is_used_where_it_lies(
    file_sync: MakeSync, model: Path, tmp_path: Path, sshd: Sshd
) -> None:
    own = tmp_path / "own models" / "snapshots"
    shutil.copytree(model, own / "abc")
    paths = {str(model.parents[1]): str(own.parent)}
    delivered = file_sync(paths=paths).send(cell_of(model))
    assert delivered.model.source == str(own / "abc")
    assert not list((tmp_path / "far").rglob("abc"))
    at_home = {str(model): "~/" + os.path.relpath(own / "abc", sshd.folder / "home")}
    found = Path(file_sync(paths=at_home).send(cell_of(model)).model.source)
    assert found.is_absolute()
    assert found.samefile(own / "abc")
    shutil.rmtree(own / "abc")
    with pytest.raises(ProvisionFailed, match=r"lab1 has no .*own models.*inventory's paths"):
        file_sync(paths=paths).send(cell_of(model))
    with pytest.raises(ProvisionFailed, match=r"lab1 did not answer: .*refused"):
        file_sync(paths=paths, port=1).send(cell_of(model))


def test_a_host_that_was_away_is_asked_again(
    file_sync: MakeSync, model: Path, tmp_path: Path
) -> None:
    sender = file_sync()
    there = Path(sender.send(cell_of(model)).model.source)
    shutil.rmtree(there)
    sender.forget()
    assert contents(Path(sender.send(cell_of(model)).model.source)) == followed(model)


def test_a_store_that_takes_nothing_is_reported(
    file_sync: MakeSync, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "far").write_text("a file where the folder should be")
    with pytest.raises(ProvisionFailed, match=r"abc could not be sent to lab1: .*far"):
        file_sync().send(cell_of(model))


def test_a_link_that_leads_nowhere_is_named(
    file_sync: MakeSync, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model / "gone.bin").symlink_to("/no/such/blob")
    with pytest.raises(ProvisionFailed, match=r"gone\.bin") as broken:
        file_sync().send(cell_of(model))
    assert broken.value.kind == "user_error"  # no fault of the host, which goes on with others
    without_rsync(tmp_path / "bin", monkeypatch)
    with pytest.raises(ProvisionFailed, match=r"/no/such/blob|gone\.bin") as broken:
        file_sync(folder=str(tmp_path / "far2")).send(cell_of(model))
    assert broken.value.kind == "user_error"


def test_the_files_of_a_benchmark_arrive_under_their_whole_path(
    file_sync: MakeSync, tmp_path: Path
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
    assert files_bundle(cell) is not None
    delivered = file_sync().send(cell)
    place = Path(str(delivered.workload.outside["folder"]))
    assert place.is_relative_to(tmp_path / "far" / "files")
    assert str(place).endswith(str(folder))
    found = {name for name, content in contents(place).items() if content is not None}
    assert found == {"measure.py", "data/one.csv"}
    assert Command({**params, **delivered.workload.outside}).data_digest(None) == digest
    assert delivered.fingerprint == cell.fingerprint


def test_changed_files_are_sent_again_though_the_identity_is_declared(tmp_path: Path) -> None:
    script = tmp_path / "measure.py"
    script.write_text("print(1)")
    cell = cell_of_script(script, identity="v1")
    before = files_bundle(cell)
    assert files_bundle(cell) == before
    script.write_text("print(22)")
    after = files_bundle(cell)
    assert cell.workload.data_digest == "v1"
    assert before is not None
    assert after is not None
    assert before.name != after.name


def test_a_connection_that_cannot_be_had_is_not_the_cells_fault(
    own_sshd: Sshd, ssh: OpenSsh, model: Path
) -> None:
    own_sshd.kill()
    with pytest.raises(ProvisionFailed, match="could not be sent") as broken:
        FileSync(own_sshd.host(), ssh).send(cell_of(model))
    assert broken.value.kind == "host_lost"
