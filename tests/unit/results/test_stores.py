"""Places without a server: a folder, and an object store in memory."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from benchfleet.errors import ResultsError, StoreUnreachable, UnknownName
from benchfleet.registry import load
from benchfleet.results.stores.base import ResultStore
from benchfleet.results.stores.folder import FolderStore
from benchfleet.results.stores.object_store import ObjectStore
from benchfleet.results.stores.rsync import RsyncStore
from benchfleet.testing.sample_cells import sample_cell
from stores import PATH, StoreContract, content, seal


class TestFolderStore(StoreContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], ResultStore]:
        (tmp_path / "srv").mkdir()
        return lambda: FolderStore(f"file://{tmp_path}/srv", "study")


class TestObjectStore(StoreContract):
    @pytest.fixture
    def make(self) -> Callable[[], ResultStore]:
        pytest.importorskip("fsspec")
        url = f"memory://{uuid.uuid4().hex}/prefix"
        return lambda: ObjectStore(url, "study")


def test_a_folder_that_is_not_mounted_is_away_and_is_not_made(tmp_path: Path) -> None:
    store = FolderStore(f"file://{tmp_path}/srv", "study")
    digest = seal(tmp_path / "one", sample_cell())
    with pytest.raises(StoreUnreachable, match="is it mounted"):
        store.put(tmp_path / "one", PATH, digest)
    assert not (tmp_path / "srv").exists()


def test_a_folder_that_takes_nothing_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "srv").mkdir()
    store = FolderStore(f"file://{tmp_path}/srv", "study")
    digest = seal(tmp_path / "one", sample_cell())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "rename", full)
        with pytest.raises(StoreUnreachable, match="No space left"):
            store.put(tmp_path / "one", PATH, digest)
    assert store.digests([PATH]) == {}
    assert list((store.root / ".incoming").iterdir()) == []


def test_an_object_store_shows_nothing_of_what_was_put_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    store = ObjectStore(f"memory://{uuid.uuid4().hex}", "study")
    digest = seal(tmp_path / "one", sample_cell())
    sent: list[str] = []

    def send(self: ObjectStore, files: object, source: Path, target: str) -> None:
        if len(sent) == 3:
            raise OSError("the line broke")
        sent.append(target)

    with monkeypatch.context() as broken:
        broken.setattr(ObjectStore, "_send", send)
        with pytest.raises(StoreUnreachable, match="the line broke"):
            store.put(tmp_path / "one", PATH, digest)
    assert sent
    assert store.digests([PATH]) == {}
    store.put(tmp_path / "one", PATH, digest)
    (tmp_path / "into").mkdir()
    store.fetch([PATH], tmp_path / "into")
    assert content(tmp_path / "into" / PATH) == content(tmp_path / "one")


@pytest.mark.parametrize(
    "url",
    [
        "rsync://-oProxyCommand=x/dir",
        "rsync://-oProxyCommand=x@host/dir",
        "rsync://me:secret@host/dir",
        "rsync://host",
        "rsync:///dir",
        "rsync://host;rm/dir",
    ],
)
def test_what_is_no_address_of_a_host_is_refused(url: str) -> None:
    with pytest.raises(ResultsError, match="rsync://user@host"):
        RsyncStore(url, "study")


def test_a_scheme_that_is_none_names_the_near_ones() -> None:
    with pytest.raises(UnknownName, match="rsync"):
        load("stores", "rsnc")
