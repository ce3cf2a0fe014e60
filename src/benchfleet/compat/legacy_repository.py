"""Read a repository of earlier tools: TODO lists, results, claims and raw logs.

Any file may be broken and no name is trusted: a result says in itself what it is of. A name without
a result is matched with the models and configs that results name.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.reported_scores import HEADLINES
from benchfleet.domain.names import path_part
from benchfleet.results.disk import read_plain

_ROOTS = ("", "data", "results")
_MAX_RESULT_BYTES = 50_000_000
_MAX_LISTED_LINES = 3  # of those that could not be read
_RERUN = re.compile(r"_(\d+)\.json$")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known of one result name."""

    name: str  # <level>_<model>_<config>_<rerun>.json
    phases: tuple[str, ...] = ()  # whose lists have it
    parts: tuple[str, str, str, int] | None = None  # level, model, config, rerun, where it is known
    content: Mapping[str, Any] | None = None  # of its result; None where there is none
    error: str = ""  # why its result is none
    score: float | None = None  # the headline of its result
    host: str = ""  # that its result names
    raw: Path | None = None  # its log
    claims: tuple[str, ...] = ()  # hosts that claimed it and left the claim there
    contradicts_name: bool = False  # its result names another level, model or config

    @property
    def is_result_name(self) -> bool:
        return _RERUN.search(self.name) is not None

    @property
    def done(self) -> bool:
        return self.score is not None


@dataclass(frozen=True, kw_only=True)
class Repository:
    """All of a repository."""

    root: Path  # what phase/ and runs/ lie in
    entries: tuple[Entry, ...]
    empty_lists: tuple[str, ...]  # phases
    unreadable: tuple[tuple[str, str], ...]  # file and reason

    @property
    def phases(self) -> list[str]:
        return list(dict.fromkeys(phase for entry in self.entries for phase in entry.phases))


@dataclass
class _Draft:
    phases: list[str] = field(default_factory=list)
    content: Mapping[str, Any] | None = None
    raw: Path | None = None
    claims: list[str] = field(default_factory=list)


def read_repository(folder: Path) -> Repository | None:
    """What the repository holds; None where it has neither lists nor results."""
    folders = [folder / root for root in _ROOTS]
    files = {
        one: len(_files(one / "phase", ".txt")) + len(_files(one / "runs", ".json"))
        for one in folders
        if (one / "phase").is_dir() or (one / "runs").is_dir()
    }
    if not files:
        return None
    root = max(files, key=files.__getitem__)  # `merge` makes a runs/ beside data/
    bad: list[tuple[str, str]] = []
    drafts: dict[str, _Draft] = {}
    empty: list[str] = []
    for file in _files(root / "phase", ".txt"):
        if not (lines := _lines(file, root, bad)):
            empty.append(file.stem)
        for line in lines:
            if line.startswith("#"):
                continue
            draft = drafts.setdefault(_listed_name(line), _Draft())
            if file.stem not in draft.phases:
                draft.phases.append(file.stem)
    for file in _files(root / "runs", ".json"):
        drafts.setdefault(file.name, _Draft()).content = _json(file, root, bad)
    for file in _files(root / "runs" / "raw", "_raw.txt"):
        name = file.name.removesuffix("_raw.txt") + ".json"
        if name in drafts:
            drafts[name].raw = file
        else:
            bad.append((_relative(file, root), "is the log of a result that nobody knows"))
    for file in _files(root / "runs" / "claims", ".claim"):
        hosts = list(_hosts(_lines(file, root, bad)))
        if any(line.startswith("<<<<<<<") for line in _lines(file, root, [])):
            bad.append(
                (_relative(file, root), f"has conflict markers; it names {', '.join(hosts)}")
            )
        drafts.setdefault(file.name.removesuffix(".claim"), _Draft()).claims += hosts
    return Repository(
        root=root, entries=tuple(_entries(drafts)), empty_lists=tuple(empty), unreadable=tuple(bad)
    )


def _listed_name(line: str) -> str:
    """The result name that a line of a list means: people leave out the ending."""
    full = f"{line}.json"
    return full if _RERUN.search(full) else line


def finished_names(folder: Path, campaign: str) -> set[str]:
    """The names of the results that the repository has, also those of the campaign that `merge`
    brought."""
    repository = read_repository(folder)
    entries = repository.entries if repository else ()
    merged = {file.name for file in (folder / "runs" / path_part(campaign)).glob("*/*.json")}
    return merged | {entry.name for entry in entries if entry.done}


def _entries(drafts: Mapping[str, _Draft]) -> Iterator[Entry]:
    declared = {
        name: parts
        for name, draft in drafts.items()
        if (parts := _declared_parts(name, draft.content))
    }
    models = {parts[1] for parts in declared.values()}
    configs = {parts[2] for parts in declared.values()}
    for name, draft in drafts.items():
        error, score = _outcome(draft.content)
        yield Entry(
            name=name,
            phases=tuple(draft.phases),
            parts=declared.get(name) or _matched_parts(name, models, configs),
            content=draft.content,
            error=error,
            score=score,
            host=str((draft.content or {}).get("hostname") or ""),
            raw=draft.raw,
            claims=tuple(dict.fromkeys(draft.claims)),
            contradicts_name=name not in declared
            and isinstance((draft.content or {}).get("run"), Mapping),
        )


def _declared_parts(
    name: str, content: Mapping[str, Any] | None
) -> tuple[str, str, str, int] | None:
    """The parts that a result says it is of, where its name agrees."""
    run, rerun = (content or {}).get("run"), _RERUN.search(name)
    if not isinstance(run, Mapping) or rerun is None:
        return None
    level, config = (_name(run.get(key)) for key in ("level", "configuration"))
    start, end = f"{level}_", f"_{config}_{rerun[1]}.json"
    if not (level and config and name.startswith(start) and name.endswith(end)):
        return None
    model = name[len(start) : -len(end)]
    named = [_name(value) for key, value in run.items() if str(key).startswith("model")]
    # Names add where a model ran: phi-local, phi-remote.
    if not any(one and (model == one or model.startswith(f"{one}-")) for one in named):
        return None
    return level, model, config, int(rerun[1])


def _name(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("name") or value.get("token") or value.get("id")
    return value if isinstance(value, str) else ""


def _matched_parts(
    name: str, models: Iterable[str], configs: Iterable[str]
) -> tuple[str, str, str, int] | None:
    """The one way to read a name with models and configs that are known, if it is one."""
    rerun = _RERUN.search(name)
    if rerun is None:
        return None
    readings = [
        (name.removesuffix(end), model, config, int(rerun[1]))
        for model in models
        for config in configs
        if name.endswith(end := f"_{model}_{config}_{rerun[1]}.json") and name != end
    ]
    return readings[0] if len(readings) == 1 else None


def _outcome(content: Mapping[str, Any] | None) -> tuple[str, float | None]:
    """Why a result is none, or its headline."""
    if content is None:
        return "", None
    for key in ("error", "exception"):
        if content.get(key):
            return f"{key}: {content[key]!s:.200}", None
    if str(content.get("status", "")).lower() in ("error", "failed", "failure"):
        return f"status: {content['status']}", None
    for key in HEADLINES:
        if (value := number(content.get(key))) is not None:
            return "", float(value)
    return f"it has none of {', '.join(HEADLINES)}", None


def number(value: Any) -> float | None:
    """A number or truth as it is, where a float can hold it; None for all else."""
    if isinstance(value, (int, float)):
        with suppress(OverflowError):
            return value if math.isfinite(value) else None
    return None


def _json(file: Path, root: Path, bad: list[tuple[str, str]]) -> Mapping[str, Any] | None:
    try:
        if file.stat().st_size > _MAX_RESULT_BYTES:
            raise ValueError("it is larger than 50 MB")
        content = json.loads(read_plain(file))
        if isinstance(content, dict):
            return content
        raise ValueError("it is not a mapping")
    except (OSError, ValueError, RecursionError) as error:
        bad.append((_relative(file, root), f"cannot be read: {error}"))
        return None


def _lines(file: Path, root: Path, bad: list[tuple[str, str]]) -> list[str]:
    try:
        content = read_plain(file).removeprefix(codecs.BOM_UTF8)
    except (OSError, ValueError) as error:
        bad.append((_relative(file, root), f"cannot be read: {error}"))
        return []
    lines: list[str] = []
    odd: list[str] = []
    for raw in content.splitlines():
        text = raw.decode("utf-8", "replace").strip()
        (odd if "\ufffd" in text or "\0" in text else lines).append(text)
    if odd:
        many = "1 line is" if len(odd) == 1 else f"{len(odd)} lines are"
        bad.append(
            (_relative(file, root), f"{many} no UTF-8: {', '.join(odd[:_MAX_LISTED_LINES])}")
        )
    return [line for line in lines if line]


def _hosts(lines: Iterable[str]) -> Iterator[str]:
    return (line for line in lines if not line.startswith(("<<<<<<<", "=======", ">>>>>>>")))


def _files(folder: Path, ending: str) -> list[Path]:
    """Plain files, no links, by name."""
    if not folder.is_dir() or folder.is_symlink():
        return []
    files = (file for file in folder.iterdir() if file.name.endswith(ending))
    return sorted(file for file in files if file.is_file() and not file.is_symlink())


def _relative(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix()
