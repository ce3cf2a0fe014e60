"""Data sets in a folder of the user's, laid out as on the hub: parquet or JSON lines.

The folder holds a copy of a repository, or several: below ``<org>/<name>``, ``<org>--<name>`` or
``<name>``, or as the hub's own cache lays them out. A repository names the files of a config in its
README; without one, they lie below a folder of the config's name, or bear it. Nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchfleet.domain.canonical import content_digest
from benchfleet.file_digest import file_digest

from .dataset import RemoteData
from .needs import Need

_READERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv"}
_COMPRESSED = {".gz", ".zst", ".bz2", ".xz"}
_SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval"),
}
_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\r?\n---\s*$", re.DOTALL | re.MULTILINE)

Files = dict[str, list[Path]]  # of each split


class LocalData:
    """The data sets in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def files(self, needs: Iterable[Need]) -> list[Path]:
        """The files of what a task needs. Raises ValueError with what to do where one is not
        there."""
        return sorted({file for need in needs for file in self._files(need)})

    def digest(self, needs: Sequence[Need]) -> str:
        """Of the content of these files; not of where they lie."""
        return content_digest([[file.name, file_digest(file)] for file in self.files(needs)])

    def find(self, path: str, config: str | None, splits: Sequence[str]) -> Files:
        """The files of each split of a data set. Raises ValueError where there are none."""
        if not self.folder.is_dir():
            raise ValueError(f"data: {self.folder} is not a folder; name the one of the data sets")
        repository = self._repository(path)
        matches = _declared(repository, config, splits) or _by_name(repository, config, splits)
        if not matches:
            what = f"{config}/{splits[0]}" if config else splits[0]
            raise ValueError(
                f"data: {repository} holds no file of {path}, such as {what}.parquet or "
                f"{config or splits[0]}.jsonl; copy the data set there as the hub has it"
            )
        return matches

    def load(self, load_dataset: Any, path: str, config: str | None, splits: Sequence[str]) -> Any:
        """The rows of each split, read by `load_dataset` of `datasets`."""
        rows = {}
        for split, files in self.find(path, config, splits).items():
            reader = _READERS[_kind(files[0])]
            rows[split] = load_dataset(reader, data_files=list(map(str, files)), split="train")
        return rows

    def _files(self, need: Need) -> list[Path]:
        if not isinstance(need, RemoteData):
            return need.local_files(self.folder)
        splits = self.find(need.path, need.config, need.splits)
        return [file for files in splits.values() for file in files]

    def _repository(self, path: str) -> Path:
        names = (path, path.replace("/", "--"), path.rpartition("/")[2])
        cached = self.folder / f"datasets--{path.replace('/', '--')}" / "snapshots"
        snapshots = sorted(cached.iterdir()) if cached.is_dir() else []
        folders = [*(self.folder / name for name in names), *snapshots]
        return next((folder for folder in folders if folder.is_dir()), self.folder)


@contextmanager
def redirected(local: LocalData | None, remotes: Iterable[RemoteData] = ()) -> Iterator[None]:
    """`datasets` reads these data sets of the hub from the folder alone while this lasts."""
    if local is None:
        yield
        return
    import datasets

    original = datasets.load_dataset
    splits = {(remote.path, remote.config): remote.splits for remote in remotes}

    def load_dataset(
        path: str, name: str | None = None, *args: Any, split: str | None = None, **kwargs: Any
    ) -> Any:
        if path in (*_READERS.values(), "arrow", "text", "xml"):  # files of a task of the user's
            return original(path, name, *args, split=split, **kwargs)
        requested = [split] if split else splits.get((path, name), tuple(_SPLIT_WORDS))
        try:
            rows = local.load(original, path, name, requested)
        except ValueError as error:
            raise FileNotFoundError(str(error)) from error
        return rows[split] if split else datasets.DatasetDict(rows)

    datasets.load_dataset = load_dataset
    try:
        yield
    finally:
        datasets.load_dataset = original


def _declared(repository: Path, config: str | None, splits: Sequence[str]) -> Files:
    """The files that the README of a repository names for a config."""
    readme = repository / "README.md"
    if not readme.is_file():
        return {}
    import yaml

    match = _FRONT_MATTER.search(readme.read_text("utf-8", "replace"))
    metadata = yaml.safe_load(match[1]) if match else None
    configs = (metadata.get("configs") if isinstance(metadata, Mapping) else None) or []
    for one in configs:
        if one.get("config_name") == (config or "default") or (not config and len(configs) == 1):
            return _existing(repository, one.get("data_files"), splits)
    return {}


def _existing(repository: Path, declared: Any, splits: Sequence[str]) -> Files:
    entries = declared if isinstance(declared, list) else [declared]
    matches: Files = {}
    for entry in entries:
        split = entry.get("split", splits[0]) if isinstance(entry, Mapping) else splits[0]
        patterns = entry.get("path") if isinstance(entry, Mapping) else entry
        for pattern in [patterns] if isinstance(patterns, str) else patterns or ():
            files = sorted(file for file in repository.glob(pattern) if _kind(file))
            if files:
                matches.setdefault(split, []).extend(files)
    return matches


def _by_name(repository: Path, config: str | None, splits: Sequence[str]) -> Files:
    """The files that bear the name of a config or lie in a folder of its name."""
    for base in (repository, repository / "data"):
        if config is None:
            if matches := _of_splits(base, splits):
                return matches
            continue
        if matches := _of_splits(base / config, splits):
            return matches
        named = [file for file in _data_files(base) if _stem(file) == config]
        parts = [file for file in _data_files(base) if _stem(file).startswith(f"{config}-")]
        if named or parts:
            return {splits[0]: named or parts}
    return {}


def _of_splits(folder: Path, splits: Sequence[str]) -> Files:
    files = _data_files(folder)
    matches = {split: [file for file in files if _is_of(file, split)] for split in splits}
    matches = {split: some for split, some in matches.items() if some}
    named = any(_is_of(file, split) for file in files for split in _SPLIT_WORDS)
    return matches if matches or named or not files else {splits[0]: files}


def _is_of(file: Path, split: str) -> bool:
    words = _SPLIT_WORDS.get(split, (split,))
    return any(re.match(rf"{re.escape(word)}(?![A-Za-z])", _stem(file)) for word in words)


def _data_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if _kind(file)) if folder.is_dir() else []


def _kind(file: Path) -> str:
    """The ending that tells the format; ``""`` for a file that holds no rows."""
    endings = [ending for ending in file.suffixes if ending not in _COMPRESSED]
    ending = endings[-1] if endings else ""
    return ending if ending in _READERS and file.is_file() else ""


def _stem(file: Path) -> str:
    name = file.name
    for ending in reversed(file.suffixes):
        if ending in _COMPRESSED or ending in _READERS:
            name = name.removesuffix(ending)
    return name
