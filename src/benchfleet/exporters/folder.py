"""Exporters that write files into a folder, with an index of what they wrote."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.errors import ExportError
from benchfleet.exporters.base import ExportedResult, Exporter
from benchfleet.exporters.files import write_whole

_INDEX = ".benchfleet.json"  # the digest and the files of each result, by fingerprint


class FolderExporter(Exporter):
    """Writes the files of each result, and removes those of the result that it replaces.

    The default folder is ``<campaign>-<name>`` below the current one.
    """

    destination: ClassVar[str] = "a folder"
    name: ClassVar[str]

    def __init__(self, where: str, campaign: str) -> None:
        super().__init__(where or f"{campaign}-{self.name}", campaign)
        self.folder = Path(self.where)

    @abstractmethod
    def files(self, result: ExportedResult) -> Mapping[str, bytes]:
        """The files of a result by their paths below the folder, the last one written last."""

    def digests(self) -> Mapping[str, str]:
        if self.folder.exists() and not self.folder.is_dir():
            raise ExportError(f"{self.where} is not a folder; name another one")
        return {
            fingerprint: entry["digest"]
            for fingerprint, entry in self._index().items()
            if all((self.folder / name).is_file() for name in entry["files"])
        }

    def put(self, results: Sequence[ExportedResult]) -> None:
        index = self._index()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                for result in results:
                    self._replace(result, index)
            finally:  # an interrupted export keeps what it has
                write_whole(self.folder / _INDEX, json.dumps(index, indent=1).encode())
        except OSError as error:
            raise ExportError(f"{self.where}: {error.strerror or error}") from error

    def _replace(self, result: ExportedResult, index: dict[str, Any]) -> None:
        files = self.files(result)
        earlier = index.pop(result.fingerprint, {"files": []})
        for name in {*earlier["files"]} - {*files}:
            (self.folder / name).unlink(missing_ok=True)
        for name, content in files.items():
            write_whole(self.folder / name, content)
        index[result.fingerprint] = {"digest": result.digest, "files": [*files]}

    def _index(self) -> dict[str, Any]:
        file = self.folder / _INDEX
        try:
            index = json.loads(file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ExportError(
                f"{file} cannot be read ({error}); delete the folder and export again"
            ) from error
        return dict(index)
