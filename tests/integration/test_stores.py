"""Places with a real server behind them: rsync over a real sshd, and an object store."""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchfleet.errors import ResultsError, StoreUnreachable
from benchfleet.results.cache import ResultCache
from benchfleet.results.disk import digest_of
from benchfleet.results.stores.base import ResultStore
from benchfleet.results.stores.object_store import ObjectStore
from benchfleet.results.stores.rsync import RsyncStore
from benchfleet.testing.sample_cells import sample_cell
from objectstore import ObjectStoreServer
from sshd import Sshd
from stores import PATH, StoreContract, seal


@pytest.fixture
def rsh(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the ssh options for the test's keys; the URL's host and port."""
    monkeypatch.setenv("RSYNC_RSH", shell_of(sshd, tmp_path))
    return f"127.0.0.1:{sshd.port}"


def shell_of(sshd: Sshd, folder: Path) -> str:
    known = folder / "known_hosts"
    words = ["ssh", "-F", "none", "-i", str(sshd.identity), "-o", "IdentitiesOnly=yes"]
    words += ["-o", f"UserKnownHostsFile={known}", "-o", "StrictHostKeyChecking=accept-new"]
    return shlex.join(words)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStoreServer]:
    server = ObjectStoreServer(tmp_path_factory.mktemp("store") / "log")
    yield server
    server.stop()


@pytest.fixture
def bucket(store: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return store.bucket(f"lab-{uuid.uuid4().hex[:8]}")


class TestRsyncStore(StoreContract):
    @pytest.fixture
    def make(self, rsh: str, tmp_path: Path) -> Callable[[], ResultStore]:
        return lambda: RsyncStore(f"rsync://{rsh}{tmp_path}/srv with space", "study")


class TestObjectStore(StoreContract):
    @pytest.fixture
    def make(self, bucket: str) -> Callable[[], ResultStore]:
        return lambda: ObjectStore(f"{bucket}/prefix", "study")


def test_one_damaged_entry_of_a_cache_in_a_bucket_harms_only_itself(
    bucket: str, tmp_path: Path
) -> None:
    import fsspec

    cells = [sample_cell(number) for number in range(2)]
    cache = ResultCache(ObjectStore(bucket, "fingerprints"))
    for cell in cells:
        folder = tmp_path / cell.fingerprint
        cache.put(folder, cell.fingerprint, seal(folder, cell))
    bad, good = (str(cell.fingerprint) for cell in cells)
    file = f"{bucket}/fingerprints/{bad[:2]}/{bad[2:4]}/{bad}/cell.json"
    with fsspec.open(file, "wb") as opened:
        opened.write(b"{odd")
    digests = cache.digests([bad, good])
    (tmp_path / "into").mkdir()
    came = {one.fingerprint: one.problem for one in cache.fetch(digests, tmp_path / "into")}
    assert came[good] == ""
    assert "cannot be read" in came[bad]
    cache.put(tmp_path / bad, bad, digest_of(tmp_path / bad / "cell.json"))
    (tmp_path / "again").mkdir()
    (again,) = cache.fetch(cache.digests([bad]), tmp_path / "again")
    assert again.problem == ""


def test_a_link_that_somebody_left_at_the_place_is_not_followed(rsh: str, tmp_path: Path) -> None:
    store = RsyncStore(f"rsync://{rsh}{tmp_path}/srv", "study")
    digest = seal(tmp_path / "one", sample_cell())
    store.put(tmp_path / "one", PATH, digest)
    folder = tmp_path / "srv" / "study" / PATH
    (folder / "log.txt").unlink()
    (folder / "log.txt").symlink_to("/etc/passwd")
    (tmp_path / "into").mkdir()
    store.fetch([PATH], tmp_path / "into")
    assert not os.path.lexists(tmp_path / "into" / PATH / "log.txt")


def test_a_host_that_is_gone_is_away_and_one_that_takes_nothing_refuses(
    own_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSYNC_RSH", shell_of(own_sshd, tmp_path))
    digest = seal(tmp_path / "one", sample_cell())
    (tmp_path / "file").touch()
    refuses = RsyncStore(f"rsync://127.0.0.1:{own_sshd.port}{tmp_path}/file", "study")
    with pytest.raises(ResultsError, match="refuses") as refused:
        refuses.put(tmp_path / "one", PATH, digest)
    assert not isinstance(refused.value, StoreUnreachable)
    own_sshd.kill()
    away = RsyncStore(f"rsync://127.0.0.1:{own_sshd.port}{tmp_path}/srv", "study")
    for ask in (lambda: away.put(tmp_path / "one", PATH, digest), lambda: away.digests([PATH])):
        with pytest.raises(StoreUnreachable, match="Connection refused"):
            ask()


def test_an_rsync_host_is_tested_for_writing_without_a_trace(rsh: str, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    RsyncStore(f"rsync://{rsh}{tmp_path}/srv/new", "study").check_writable()
    assert not [*(tmp_path / "srv").iterdir()]
    with pytest.raises(ResultsError, match="refuses: mktemp"):
        RsyncStore(f"rsync://{rsh}/proc/new", "study").check_writable()


def test_a_store_that_is_gone_is_away_and_a_bucket_that_is_none_refuses(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = seal(tmp_path / "one", sample_cell())
    with pytest.raises(ResultsError, match="refuses") as refused:
        ObjectStore("s3://no-such-bucket-here", "study").put(tmp_path / "one", PATH, digest)
    with pytest.raises(ResultsError, match="refuses: The specified bucket does not exist"):
        ObjectStore("s3://no-such-bucket-there", "study").fetch([PATH], tmp_path / "came")
    assert not isinstance(refused.value, StoreUnreachable)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StoreUnreachable) as away:
        ObjectStore(f"{bucket}/away", "study").put(tmp_path / "one", PATH, digest)
    assert "very-secret" not in str(away.value)
