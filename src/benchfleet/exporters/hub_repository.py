"""A repository of the Hugging Face Hub, or a local folder with the same files."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from benchfleet.errors import ExportError
from benchfleet.exporters.files import write_whole

RepositoryKind = Literal["model", "dataset"]
_PREFIXES: Mapping[RepositoryKind, str] = {"model": "hf://", "dataset": "hf://datasets/"}
_NAME = re.compile(r"[\w.-]+/[\w.-]+")


class HubRepository:
    """Reads and writes whole files; a write is one commit.

    ``hf://datasets/OWNER/NAME`` is a data set on the hub and ``hf://OWNER/NAME`` a model. Anything
    else is a local folder. A new repository is private. The token is that of huggingface_hub.
    """

    def __init__(self, where: str, kind: RepositoryKind) -> None:
        self._where, self._kind = where, kind
        self._name = ""
        if where.startswith("hf://"):
            self._name = where.removeprefix(_PREFIXES[kind])
            if not where.startswith(_PREFIXES[kind]) or not _NAME.fullmatch(self._name):
                raise ExportError(f"invalid {kind} {where!r}: use {_PREFIXES[kind]}OWNER/NAME")

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None where there is none."""
        with tempfile.TemporaryDirectory() as folder:
            file = self.download(name, Path(folder))
            try:
                return None if file is None else file.read_bytes()
            except OSError as error:
                raise ExportError(f"{file}: {error.strerror}") from error

    def download(self, name: str, folder: Path) -> Path | None:
        """A file as a path: a copy in `folder`, or the file of a local repository.

        None where there is none.
        """
        if not self._name:
            file = Path(self._where, name)
            try:
                file.stat()
            except FileNotFoundError:
                return None
            except OSError as error:
                raise ExportError(f"{self._where}/{name}: {error.strerror}") from error
            return file
        from huggingface_hub.errors import (
            EntryNotFoundError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
        )

        with self._errors():
            try:  # not from the cache, which may be old
                return Path(
                    self._api().hf_hub_download(
                        self._name, name, repo_type=self._kind, local_dir=folder
                    )
                )
            except LocalEntryNotFoundError:
                raise ExportError(
                    f"{self._where} cannot be reached; check the network and HF_HUB_OFFLINE"
                ) from None
            except (EntryNotFoundError, RepositoryNotFoundError):
                return None

    def write(self, files: Mapping[str, bytes | Path]) -> None:
        """Write these files, each a content or a path to copy; others stay as they are."""
        if not self._name:
            for name, content in files.items():
                write_whole(Path(self._where, name), content)
            return
        from huggingface_hub import CommitOperationAdd

        api = self._api()
        operations = [CommitOperationAdd(name, content) for name, content in files.items()]
        with self._errors():
            api.create_repo(self._name, repo_type=self._kind, private=True, exist_ok=True)
            api.create_commit(
                self._name,
                operations,
                commit_message="Export results of benchfleet",
                repo_type=self._kind,
            )

    @staticmethod
    def _api() -> Any:
        from huggingface_hub import HfApi

        return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from huggingface_hub.errors import HfHubHTTPError

        try:
            yield
        except ExportError:
            raise
        except HfHubHTTPError as error:
            raise ExportError(f"{self._where}: {str(error).splitlines()[0]}") from None
        except Exception as error:  # of its HTTP library, whichever it is
            if isinstance(error, (AssertionError, TypeError, AttributeError)):
                raise
            raise ExportError(f"{self._where} cannot be reached: {error}") from None
