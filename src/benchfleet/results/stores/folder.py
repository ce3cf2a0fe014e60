"""A folder that several hosts see, such as one on a file server, as a place for results."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from benchfleet.domain.names import path_part
from benchfleet.errors import ResultsError, StoreUnreachable
from benchfleet.results.disk import digest_of, make_folders, open_plain, sync_folder
from benchfleet.results.layout import CELL, check_path
from benchfleet.results.stores.base import INCOMING, REPLACED, Place

_PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN}
)


class FolderPlace(Place):
    """``file:///srv/results``: below it each campaign has a folder."""

    def __init__(self, url: str, campaign: str) -> None:
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ResultsError(f"{url} names no folder of this host; write file:///srv/results")
        self._base = Path(unquote(parts.path))
        self.root = self._base / path_part(campaign) if campaign else self._base
        self.shown = url

    def put(self, folder: Path, path: str, digest: str) -> None:
        check_path(path)
        public = self.root / path
        if self.there([path]).get(path) == digest:
            return
        if not self._base.is_dir():  # never made: a file server that is not mounted looks like it
            raise StoreUnreachable(f"the folder {self._base} is not there; is it mounted?")
        coming = self.root / INCOMING / uuid.uuid4().hex
        try:
            changed = make_folders(coming.parent)
            copy_plain(folder, coming)
            changed += make_folders(public.parent)
            if public.exists():
                aside = self.root / REPLACED / f"{path.replace('/', '+')}@{uuid.uuid4().hex[:8]}"
                changed += make_folders(aside.parent)
                os.rename(public, aside)
            os.rename(coming, public)
            for one in (*changed, public.parent):
                sync_folder(one)
        except OSError as error:
            kind = StoreUnreachable if error.errno in _PASSING else ResultsError
            raise kind(f"{public} cannot be written: {error.strerror}") from error
        finally:
            shutil.rmtree(coming, ignore_errors=True)

    def there(self, paths: Collection[str]) -> Mapping[str, str]:
        found = {}
        for path in paths:
            check_path(path)
            try:
                found[path] = digest_of(self.root / path / CELL)
            except OSError:
                continue
        return found

    def fetch(self, paths: Collection[str], into: Path) -> None:
        there = self.there(paths)
        if not self.root.is_dir():
            if not self._base.is_dir():
                raise StoreUnreachable(f"the folder {self._base} is not there; is it mounted?")
            return
        for path in there:
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
                copy_plain(self.root / path, into / path)


def copy_plain(source: Path, target: Path) -> None:
    """Copy a folder of plain files, durably. A link becomes a link, and what is no file is left
    out. Raises OSError."""
    make_folders(target)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                copy_plain(source / entry.name, target / entry.name)
            elif entry.is_symlink():
                os.symlink(os.readlink(entry.path), target / entry.name)
            elif entry.is_file(follow_symlinks=False):
                with (
                    open(open_plain(entry.path), "rb") as read,
                    open(target / entry.name, "xb") as to,
                ):
                    shutil.copyfileobj(read, to, 2**20)
                    to.flush()
                    os.fsync(to.fileno())
    sync_folder(target)
