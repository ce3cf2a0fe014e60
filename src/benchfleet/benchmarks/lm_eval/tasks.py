"""lm-eval's tasks as files: where one is defined, what it is made of, and which data it reads.

All of it is read without importing lm-eval, so that a campaign is checked at once.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.source_files import files_below, is_source
from benchfleet.domain.canonical import content_digest
from benchfleet.file_digest import file_digest

from .dataset import RemoteData, remote_data

# The readers of `datasets` whose `data_files` lie where the task says, not in a repository.
_READERS = ("arrow", "csv", "json", "parquet", "text", "xml")
_SPLITS = ("test", "validation", "training", "fewshot")  # keys of a task; the first is asked
_LOCAL_PREFIXES = ("./", "../", "/", "~")
_FUNCTION = "!function"
_NAMED = re.compile(
    rb"^['\"]?(task|group|tag)['\"]?:[ \t]*['\"]?([^\s'\"#]+)['\"]?[ \t]*(?:#.*)?\r?$", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class TaskFile:
    """A task of the user's own: the YAML file that names it, and all that it reads."""

    name: str
    file: Path
    sources: tuple[Path, ...]  # the YAML files, and the Python files beside those with functions
    data: tuple[Path, ...]  # local data files
    dataset: Mapping[str, Any] = field(default_factory=dict)  # its keys, with whole paths
    remote: RemoteData | None = None  # what it reads over the network

    def digest(self) -> str:
        """Of the content of every file; not of where they lie."""
        files = (*self.sources, *self.data)
        return content_digest([[file.name, file_digest(file)] for file in files])

    def standalone_yaml(self) -> str:
        """YAML of the same task that can be read from any folder."""
        import yaml

        text: str = yaml.safe_dump({"include": str(self.file), "task": self.name, **self.dataset})
        return text


def own_task(folder: Path, name: str) -> TaskFile | None:
    """The task of that name below `folder`; as in lm-eval, the first by path.

    A relative path of data starts at the file that says it, as those of ``include`` and
    ``!function`` do. Raises ValueError with what to do where it cannot be used.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; let include_path name the one of your tasks")
    broken: ValueError | None = None
    for file in own_files(folder):
        if not re.search(
            rb"(?<![\w-])" + re.escape(name.encode()) + rb"(?![\w-])", file.read_bytes()
        ):
            continue
        try:
            settings, sources = read_settings(file)
        except ValueError as error:  # it may only mention the name
            broken = broken or error
            continue
        if "group" not in settings and settings.get("task", (None,))[0] == name:
            return _task(name, file, settings, sources)
    if broken and built_in_file(name) is None:
        raise broken
    return None


def own_files(folder: Path) -> list[Path]:
    """The YAML files below a folder of your own tasks, by path."""
    return [file for file in files_below(folder, "*.yaml") if is_source(file)]


def check_built_in(name: str, own: Sequence[Path] = ()) -> str | None:
    """What is wrong with the name of a task that lm-eval is to bring along, or None; `own` are the
    files of the user's tasks, whose names are suggested too."""
    names = [task for file in own for _, task in names_in(file)]
    for _, kind, task in _built_in(first=name):
        if task == name and kind == "task":
            return None
        names.append(task)
    near = get_close_matches(name, sorted(set(names)), n=3)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "see lm-eval ls tasks"
    return f"lm-eval has no task {name!r}, and include_path brings none of that name; {hint}"


@cache
def built_in_file(name: str) -> Path | None:
    """The file of a task that lm-eval brings along: its index of them all takes it 5 s to make.

    None for a name that no file says by itself; no two files define the same.
    """
    return next(
        (file for file, kind, one in _built_in(first=name) if (kind, one) == ("task", name)), None
    )


def remote_data_of(name: str, own: TaskFile | None) -> RemoteData | None:
    """What a task reads over the network: one of the user's own, or one that lm-eval brings."""
    return _built_in_remote(name) if own is None else own.remote


@cache
def _built_in_remote(name: str) -> RemoteData | None:
    file = built_in_file(name)
    with suppress(ValueError):  # lm-eval reads its own files by rules of its own
        return _remote(read_settings(file)[0]) if file else None
    return None


def built_in_digest() -> str:
    """Of the tasks that lm-eval brings along: they change with its version."""
    return content_digest(["lm_eval", version("lm_eval")])


def _built_in(*, first: str) -> Iterator[tuple[Path, str, str]]:
    """The file, kind and name of everything that lm-eval defines, `first` where `first` should
    be."""
    for home in _homes():
        folders = (entry for entry in home.iterdir() if entry.is_dir())
        # A task mostly lies in a folder that its name begins with, and there are 14,000 files.
        for folder in sorted(folders, key=partial(_distance, first)):
            for file in sorted(folder.rglob("*.yaml")):
                for kind, name in names_in(file):
                    yield file, kind, name


def _distance(task: str, folder: Path) -> tuple[bool, int, str]:
    """How unlikely a folder is to hold a task; the least is the likeliest."""
    return not task.startswith(folder.name), -len(folder.name), folder.name


def names_in(file: Path) -> list[tuple[str, str]]:
    """Kind (task, group or tag) and name of what a file defines, by its text alone."""
    matches = _NAMED.findall(file.read_bytes())
    names = [(kind.decode(), name.decode("utf-8", "replace")) for kind, name in matches]
    groups = [pair for pair in names if pair[0] == "group"]
    return groups or names  # in a group's file the key task names its parts


@cache
def built_in_files() -> list[Path]:
    """All YAML files of lm-eval's own tasks, by path."""
    return [file for home in _homes() for file in sorted(home.rglob("*.yaml"), key=Path.as_posix)]


def _homes() -> list[Path]:
    spec = find_spec("lm_eval")
    return [Path(path, "tasks") for path in (spec and spec.submodule_search_locations) or ()]


def _task(
    name: str, file: Path, settings: Mapping[str, tuple[Any, Path]], sources: list[Path]
) -> TaskFile:
    dataset: dict[str, Any] = {}
    data: list[Path] = []
    reader, base = settings.get("dataset_path", ("", file.parent))
    kwargs, kwargs_base = settings.get("dataset_kwargs", (None, file.parent))
    if isinstance(reader, str) and reader.startswith(_LOCAL_PREFIXES):
        dataset["dataset_path"] = _absolute(reader, base)
        data += _files(dataset["dataset_path"])
    elif reader in _READERS and isinstance(kwargs, dict):
        key = "data_dir" if kwargs.get("data_dir") else "data_files"  # files lie in the folder
        paths = _each(kwargs.get(key), lambda path: _absolute(path, kwargs_base))
        dataset["dataset_kwargs"] = {**kwargs, key: paths}
        data += [file for path in _texts(paths) for file in _files(path)]
    code = [
        beside
        for source in sources
        if _FUNCTION.encode() in source.read_bytes()
        for beside in sorted(source.parent.glob("*.py"))
    ]
    return TaskFile(
        name=name,
        file=file,
        sources=(*sources, *dict.fromkeys(code)),
        data=tuple(dict.fromkeys(data)),
        dataset=dataset,
        remote=_remote(settings),
    )


def _remote(settings: Mapping[str, tuple[Any, Path]]) -> RemoteData | None:
    keys = ("dataset_path", "dataset_name", "dataset_kwargs")
    path, name, kwargs = (settings.get(key, (None,))[0] for key in keys)
    is_local = isinstance(path, str) and path.startswith(_LOCAL_PREFIXES)
    splits = [settings.get(f"{split}_split", (None,))[0] for split in _SPLITS]
    if is_local:
        return None
    return remote_data(path, name, kwargs, readers=_READERS, splits=splits)


def read_settings(
    file: Path, outer: tuple[Path, ...] = ()
) -> tuple[dict[str, tuple[Any, Path]], list[Path]]:
    """Each key with the folder of the file that says it, and the files, includes resolved."""
    if file in outer:
        raise ValueError(f"{file} includes itself")
    settings = _yaml(file)
    includes = settings.pop("include", None) or []
    merged: dict[str, tuple[Any, Path]] = {}
    sources = [file]
    for included in [includes] if isinstance(includes, str) else includes:
        inner, files = read_settings(Path(os.path.abspath(file.parent / included)), (*outer, file))
        merged.update(inner)
        sources += files
    merged.update({key: (value, file.parent) for key, value in settings.items()})
    return merged, sources


def _yaml(file: Path) -> dict[str, Any]:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Takes lm-eval's functions for the text that names them."""

    Loader.add_constructor(_FUNCTION, lambda loader, node: str(node.value))
    try:
        settings = yaml.load(file.read_bytes(), Loader)  # noqa: S506 - it is a SafeLoader
    except OSError as error:
        raise ValueError(f"{file} cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{file} is not a task of lm-eval; it must be a mapping")
    return settings


def _absolute(path: str, base: Path) -> str:
    return path if "://" in path else os.path.abspath(base / os.path.expanduser(path))


def _files(path: str) -> list[Path]:
    """The local files that a path, a folder or a pattern stands for; none for an address."""
    if "://" in path:
        return []
    if os.path.isdir(path):
        files = sorted(path for path in Path(path).rglob("*") if path.is_file())
    elif os.path.isfile(path):
        files = [Path(path)]
    else:
        files = sorted(Path(path) for path in glob.glob(path, recursive=True))
    if not files:
        raise ValueError(f"its data are not there: {path}")
    return files


def _each(value: Any, change: Any) -> Any:
    """The same nest of lists and mappings with each text changed."""
    if isinstance(value, dict):
        return {key: _each(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_each(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    inside: Iterable[Any] = value.values() if isinstance(value, dict) else ()
    for inner in value if isinstance(value, list) else inside:
        yield from _texts(inner)
