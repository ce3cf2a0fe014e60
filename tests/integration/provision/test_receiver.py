"""What the store of a host does with what comes: whole or not at all, and never beyond it."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import pytest

from benchfleet.engines.provision_receiver import END, receive

from .conftest import contents, followed, packed

PROGRAM = """
import sys
from benchfleet.engines.provision_receiver import receive
receive(*sys.argv[1:])
"""
RECEIVING = [sys.executable, "-c", PROGRAM]


def sent_to(
    store: Path, data: bytes, monkeypatch: pytest.MonkeyPatch, name: str = "models/m"
) -> None:
    with tempfile.TemporaryFile() as output:
        output.write(data)
        output.seek(0)
        monkeypatch.setattr("sys.stdin", output)
        receive(str(store), name)


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


def test_a_sender_that_falls_silent_is_given_up_and_holds_up_no_other(tmp_path: Path) -> None:
    code = (
        "import sys; from benchfleet.engines import provision_receiver as receiver; "
        "receiver.SILENCE_S = 0.5; receiver.receive(*sys.argv[1:])"
    )
    words = [sys.executable, "-c", code, str(tmp_path), "models/m"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as silent:
        assert silent.stdout is not None
        assert silent.stdout.readline().startswith("want ")
        assert silent.wait(timeout=60) != 0  # though its input is open
        assert silent.stderr is not None
        wrong = silent.stderr.read()
    assert "was lost" in wrong
    assert not (tmp_path / "models" / "m").exists()
