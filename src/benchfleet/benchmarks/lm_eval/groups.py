"""Groups and tags of lm-eval, which stand for their tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .tasks import built_in_files, names_in, read_settings

_PLAIN_KEYS = {"task", "task_alias", "weight_by_size"}  # of a task in a group; others change it


class _Index:
    """The tasks, groups and tags that some files define."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.tasks: set[str] = set()
        self.groups: dict[str, Path] = {}
        self.tags: dict[str, list[str]] = defaultdict(list)
        for file in files:
            names = names_in(file)
            tasks = [name for kind, name in names if kind == "task"]
            self.tasks.update(tasks)
            for kind, name in names:
                if kind == "group":
                    self.groups.setdefault(name, file)
                elif kind == "tag":
                    self.tags[name] += tasks


@cache
def _built_in() -> _Index:
    return _Index(built_in_files())


def tasks_of(name: str, own: Sequence[Path]) -> list[str]:
    """The tasks that a name stands for, each once: those of a group or a tag, or itself. `own` are
    the files of the user's tasks, which come first. Raises ValueError with what to do."""
    return list(dict.fromkeys(_expand(name, _Index(own), ())))


def _expand(name: str, own: _Index, outer: tuple[str, ...]) -> Iterator[str]:
    if name in outer:
        raise ValueError(f"the group {name!r} holds itself; take it out of its tasks")
    for index in (own, _built_in()):
        if name not in index.tasks:
            if file := index.groups.get(name):
                listed = read_settings(file)[0].get("task", ((),))[0]
                yield from _members(name, listed, own, (*outer, name))
                return
            if name in index.tags:
                yield from index.tags[name]
                return
        else:
            break
    yield name


def _members(group: str, listed: Any, own: _Index, outer: tuple[str, ...]) -> Iterator[str]:
    for one in [listed] if isinstance(listed, str) else listed or ():
        if isinstance(one, str):
            yield from _expand(one, own, outer)
        elif "group" in one:
            yield from _members(group, one.get("task"), own, outer)
        elif set(one) <= _PLAIN_KEYS:
            yield from _expand(str(one["task"]), own, outer)
        else:
            raise ValueError(
                f"the group {group!r} changes the settings of {one.get('task')!r};"
                " name the tasks that you want"
            )
