"""A result store in an object store, over any protocol of fsspec."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.names import path_part
from benchfleet.errors import MissingExtra, ResultsError, StoreUnreachable
from benchfleet.results.layout import CELL, check_path
from benchfleet.results.read import file_names, sealed_names
from benchfleet.results.stores.base import ResultStore

_READERS = 16  # requests at once; each waits for its answer over the network


class ObjectStore(ResultStore):
    """``s3://bucket/prefix`` and similar: each campaign has a prefix below this one.

    ``cell.json`` is written last and removed first, so a result exists as a whole or not at all.
    Credentials and endpoints come from the environment, as for the store's own tools.
    """

    requires: ClassVar[tuple[str, ...]] = ("fsspec",)
    extra: ClassVar[str] = "storage"

    @classmethod
    def missing_module(cls, scheme: str) -> str:
        from fsspec.registry import known_implementations

        module = known_implementations.get(scheme, {}).get("class", "").partition(".")[0]
        return module if module and find_spec(module) is None else ""

    def __init__(self, url: str, campaign: str) -> None:
        scheme, _, bucket = url.partition("://")
        if not bucket.strip("/") and scheme != "memory":
            raise ResultsError(f"{url} names no bucket; write {scheme}://bucket/prefix")
        self.display_url = url
        self._url = f"{url.rstrip('/')}/{path_part(campaign)}" if campaign else url.rstrip("/")
        self._opened: tuple[Any, str] | None = None
        self._lock = threading.Lock()

    def put(self, folder: Path, path: str, digest: str) -> None:
        check_path(path)
        if self.digests([path]).get(path) == digest:
            return
        files, root = self._files()
        names = file_names(folder)
        with self._plain_errors():
            before = f"{root}/{path}/"
            if files.exists(before + CELL):  # another result, which is obsolete
                files.rm_file(before + CELL)
            for name in names:
                if name != CELL:
                    self._send(files, folder / name, before + name)
            self._send(files, folder / CELL, before + CELL)

    def digests(self, paths: Collection[str]) -> Mapping[str, str]:
        for path in paths:
            check_path(path)
        files, root = self._files()
        with self._plain_errors(), ThreadPoolExecutor(_READERS) as readers:
            seals = readers.map(lambda path: _seal_of(files, f"{root}/{path}/{CELL}"), paths)
            return {
                path: hashlib.sha256(content).hexdigest()
                for path, content in zip(paths, seals, strict=True)
                if content is not None
            }

    def fetch(self, paths: Collection[str], into: Path) -> None:
        files, root = self._files()
        with self._plain_errors():
            for path in paths:
                check_path(path)
                if (content := _seal_of(files, f"{root}/{path}/{CELL}")) is None:
                    continue
                folder = into / path
                folder.mkdir(parents=True)
                for name in _names_in(content):
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    try:
                        files.get_file(f"{root}/{path}/{name}", str(target))
                    except FileNotFoundError:
                        target.unlink(missing_ok=True)
                (folder / CELL).write_bytes(content)

    def remove(self, path: str) -> None:
        files, root = self._files()
        check_path(path)
        with self._plain_errors():
            before = f"{root}/{path}/"
            if (content := _seal_of(files, before + CELL)) is None:
                return
            for name in (CELL, *sealed_names(content)):
                with contextlib.suppress(FileNotFoundError):
                    files.rm_file(before + name)

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
        return _PlainErrors(self.display_url)


def _seal_of(files: Any, file: str) -> bytes | None:
    """The bytes of a cell.json, or None. Raises FileNotFoundError without the bucket itself."""
    try:
        content: bytes = files.cat_file(file)
    except FileNotFoundError as error:
        if "bucket does not exist" in str(error):
            raise
        return None
    return content


def _names_in(content: bytes) -> list[str]:
    """The files that a cell.json names; none if it is damaged, which the reader finds."""
    try:
        return sealed_names(content)
    except ResultsError:
        return []


class _PlainErrors:
    """Translates the exceptions of a store's library."""

    def __init__(self, display_url: str) -> None:
        self._display_url = display_url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, ResultsError):
            return
        if isinstance(error, ImportError):
            need = error.name or error
            raise MissingExtra(
                f"{self._display_url} needs {need}; pip install 'benchfleet[storage]'"
            ) from error
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, (PermissionError, FileNotFoundError, ValueError)):
            raise ResultsError(f"{self._display_url} refuses: {message}") from error
        raise StoreUnreachable(f"{self._display_url} cannot be reached: {message}") from error
