"""An object store as a place for results, by whatever protocol fsspec knows."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.names import path_part
from benchfleet.errors import MissingExtra, ResultsError, StoreUnreachable
from benchfleet.results.layout import CELL, check_path
from benchfleet.results.read import file_names, sealed_names
from benchfleet.results.stores.base import Place


class ObjectPlace(Place):
    """``s3://bucket/prefix`` and the like: below the prefix each campaign has its own.

    ``cell.json`` is put last and taken away first, so that a result is there as a whole or not at
    all. Credentials and endpoints come from the environment, as the store's own tools take them.
    """

    requires: ClassVar[tuple[str, ...]] = ("fsspec",)
    extra: ClassVar[str] = "storage"

    def __init__(self, url: str, campaign: str) -> None:
        self.shown = url
        self._url = f"{url.rstrip('/')}/{path_part(campaign)}" if campaign else url.rstrip("/")
        self._opened: tuple[Any, str] | None = None
        self._lock = threading.Lock()

    def put(self, folder: Path, path: str, digest: str) -> None:
        check_path(path)
        if self.there([path]).get(path) == digest:
            return
        files, root = self._files()
        names = file_names(folder)
        with self._plain_errors():
            before = f"{root}/{path}/"
            if files.exists(before + CELL):  # another result, done no longer
                files.rm_file(before + CELL)
            for name in names:
                if name != CELL:
                    self._send(files, folder / name, before + name)
            self._send(files, folder / CELL, before + CELL)

    def there(self, paths: Collection[str]) -> Mapping[str, str]:
        files, root = self._files()
        found = {}
        with self._plain_errors():
            for path in paths:
                check_path(path)
                if (content := _seal_of(files, f"{root}/{path}/{CELL}")) is None:
                    continue
                found[path] = hashlib.sha256(content).hexdigest()
        return found

    def fetch(self, paths: Collection[str], into: Path) -> None:
        files, root = self._files()
        with self._plain_errors():
            for path in paths:
                check_path(path)
                if (content := _seal_of(files, f"{root}/{path}/{CELL}")) is None:
                    continue
                folder = into / path
                folder.mkdir(parents=True)
                for name in sealed_names(content):
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    try:
                        files.get_file(f"{root}/{path}/{name}", str(target))
                    except FileNotFoundError:
                        target.unlink(missing_ok=True)
                (folder / CELL).write_bytes(content)

    def _send(self, files: Any, source: Path, target: str) -> None:
        files.put_file(str(source), target)

    def _files(self) -> tuple[Any, str]:
        with self._lock:
            if self._opened is None:
                import fsspec

                with self._plain_errors():
                    files, root = fsspec.core.url_to_fs(
                        self._url, use_listings_cache=False, skip_instance_cache=True
                    )
                self._opened = files, root.rstrip("/")
            return self._opened

    def _plain_errors(self) -> _PlainErrors:
        return _PlainErrors(self.shown)


def _seal_of(files: Any, file: str) -> bytes | None:
    """A cell.json; None where there is none. Raises FileNotFoundError without the very bucket."""
    try:
        content: bytes = files.cat_file(file)
    except FileNotFoundError as error:
        if "bucket does not exist" in str(error):
            raise
        return None
    return content


class _PlainErrors:
    """What a store's library raises, in words that help."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, ResultsError):
            return
        if isinstance(error, ImportError):
            raise MissingExtra(
                f"{self._shown} needs {error.name or error}; pip install 'benchfleet[storage]'"
            ) from error
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, (PermissionError, FileNotFoundError, ValueError)):
            raise ResultsError(f"{self._shown} refuses: {said}") from error
        raise StoreUnreachable(f"{self._shown} cannot be reached: {said}") from error
