"""A result store in a folder that several hosts see, such as a network file system."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from benchfleet.domain.names import path_part
from benchfleet.errors import ResultsError, StoreUnreachable
from benchfleet.results.disk import digest_of, make_folders, open_plain, sync_folder
from benchfleet.results.layout import CELL, check_path
from benchfleet.results.stores.base import INCOMING, REPLACED, ResultStore

_PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN}
)


class FolderStore(ResultStore):
    """``file:///srv/results``: below it each campaign has a folder."""

    def __init__(self, url: str, campaign: str) -> None:
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ResultsError(f"{url} is not a folder of this host; write file:///srv/results")
        self._base = Path(unquote(parts.path))
        self.root = self._base / path_part(campaign) if campaign else self._base
        self.display_url = url

    def put(self, folder: Path, path: str, digest: str) -> None:
        check_path(path)
        public = self.root / path
        if self.digests([path]).get(path) == digest:
            return
        self._check_mounted()
        incoming = self.root / INCOMING / uuid.uuid4().hex
        try:
            changed = make_folders(incoming.parent)
            copy_plain(folder, incoming)
            changed += make_folders(public.parent)
            if os.path.lexists(public):
                replaced = self.root / REPLACED / f"{path.replace('/', '+')}@{uuid.uuid4().hex[:8]}"
                changed += make_folders(replaced.parent)
                os.rename(public, replaced)
            os.rename(incoming, public)
            for changed_folder in (*changed, public.parent):
                sync_folder(changed_folder)
        except OSError as error:
            kind = StoreUnreachable if error.errno in _PASSING else ResultsError
            raise kind(f"{public} cannot be written: {error.strerror}") from error
        finally:
            shutil.rmtree(incoming, ignore_errors=True)

    def digests(self, paths: Collection[str]) -> Mapping[str, str]:
        digests = {}
        for path in paths:
            check_path(path)
            try:
                digests[path] = digest_of(self.root / path / CELL)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # not there, or not for us
            except OSError as error:
                raise StoreUnreachable(
                    f"{self.root / path} cannot be read: {error.strerror}"
                ) from error
        if not digests and not self.root.is_dir():
            self._check_mounted()
        return digests

    def fetch(self, paths: Collection[str], into: Path) -> None:
        for path in self.digests(paths):
            parts = path.split("/")
            for depth in range(1, len(parts) + 1):
                part = "/".join(parts[:depth])
                if (self.root / part).is_symlink() and not os.path.lexists(into / part):
                    os.symlink(os.readlink(self.root / part), into / part)  # to be refused by name
                if (into / part).is_symlink():
                    break
                make_folders(into / part)
            else:
                (into / path).rmdir()
                with suppress(PermissionError):  # the reader finds what is missing
                    copy_plain(self.root / path, into / path)

    def check_writable(self) -> None:
        folder = self.root if self.root.is_dir() else self._base
        try:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=INCOMING):
                pass
        except OSError as error:
            raise ResultsError(f"{folder} cannot be written: {error.strerror}") from error

    def remove(self, path: str) -> None:
        check_path(path)
        leaving = self.root / INCOMING / uuid.uuid4().hex
        try:
            make_folders(leaving.parent)
            os.rename(self.root / path, leaving)  # a reader sees all of it or nothing
            shutil.rmtree(leaving)
        except FileNotFoundError:
            self._check_mounted()
        except OSError as error:
            kind = StoreUnreachable if error.errno in _PASSING else ResultsError
            raise kind(f"{self.root / path} cannot be removed: {error.strerror}") from error

    def _check_mounted(self) -> None:
        if not self._base.is_dir():  # never created: a share that is not mounted looks like this
            problem = "is not a folder" if self._base.exists() else "does not exist"
            raise StoreUnreachable(f"the folder {self._base} {problem}; is it mounted?")


def copy_plain(source: Path, target: Path) -> None:
    """Copy a folder of plain files, durably. Links stay links; other entries are skipped. Raises
    OSError."""
    make_folders(target)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                copy_plain(source / entry.name, target / entry.name)
            elif entry.is_symlink():
                os.symlink(os.readlink(entry.path), target / entry.name)
            elif entry.is_file(follow_symlinks=False):
                with (
                    open(open_plain(entry.path), "rb") as reader,
                    open(target / entry.name, "xb") as writer,
                ):
                    shutil.copyfileobj(reader, writer, 2**20)
                    writer.flush()
                    os.fsync(writer.fileno())
    sync_folder(target)
