"""A task's data where they come over the network: fetched by one process of a host for all."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from benchfleet.domain.canonical import content_digest
from benchfleet.download import Download
from benchfleet.environment import datasets_cache, hub_cache, offline
from benchfleet.host_lock import lock_file, locked
from benchfleet.hub_files import file_sizes, repository_bytes
from benchfleet.reachability import unreachable_hub

_SECRET = ("token", "use_auth_token")
_WHICH = ("revision", "data_dir", "data_files")  # what may name other data of the same repository


@dataclass(frozen=True, kw_only=True)
class RemoteData(Download):
    """What `datasets` is asked for: a repository of the hub, or files of another place."""

    kind: ClassVar[str] = "data set"

    path: str  # the repository, or the reader of the files, such as json
    config: str | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)  # of load_dataset
    reader: bool = False
    splits: tuple[str, ...] = ("test",)  # that the task reads; the one that is asked first

    def __str__(self) -> str:
        if self.reader:
            return str(self.kwargs.get("data_files") or self.kwargs.get("data_dir"))
        details = {"config": self.config, "revision": self.kwargs.get("revision")}
        more = ", ".join(f"{name} {value}" for name, value in details.items() if value)
        return f"{self.path} ({more})" if more else self.path

    @property
    def title(self) -> str:
        return str(replace(self, config=None))

    def command(self) -> str:
        """What fetches it into the cache of a host that can reach it."""
        words = [self.path] if self.config is None else [self.path, self.config]
        kwargs = {name: self.kwargs[name] for name in _WHICH if name in self.kwargs}
        arguments = [*map(json.dumps, words), *(f"{k}={json.dumps(v)}" for k, v in kwargs.items())]
        code = f"import datasets; datasets.load_dataset({', '.join(arguments)})"
        return f"python -c {shlex.quote(code)}"

    def missing_message(self, environ: Mapping[str, str]) -> str:
        """What to do, where the data are not here and must not be fetched; ``""`` otherwise.

        Known without `datasets`, and so only where it has nothing of the repository at all.
        """
        if not (variable := offline(environ, datasets=True)) or self.is_here(environ):
            return ""
        return self.way_out(f"{variable} is set")

    def unreachable_message(self, environ: Mapping[str, str]) -> str:
        """What to do, where the data are not here and the hub cannot be reached; ``""``
        otherwise."""
        if offline(environ, datasets=True) or self.is_here(environ):
            return ""
        host = unreachable_hub(environ)
        if not host:
            return ""
        # All configs of a repository share one message, so that they are listed together.
        return replace(self, config=None).way_out(f"{host} cannot be reached")

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Whether this host has it, or may have it: only `datasets` knows the configs."""
        if self.reader or "cache_dir" in self.kwargs:
            return True
        expected = _plain(self.path.replace("/", "___"))
        try:
            return any(_plain(name) == expected for name in os.listdir(datasets_cache(environ)))
        except OSError:
            return False

    def size(self, environ: Mapping[str, str]) -> int | None:
        if self.reader:
            return None
        revision = str(self.kwargs.get("revision") or "main")
        return sum(file_sizes("datasets", self.path, revision, environ=environ).values()) or None

    def received(self, environ: Mapping[str, str]) -> int:
        return repository_bytes("datasets", self.path, environ)

    def fetch(self, environ: Mapping[str, str]) -> None:
        if reason := self.missing_message(environ) or self.unreachable_message(environ):
            raise ValueError(reason)
        import datasets

        datasets.disable_progress_bars()
        with alone_on_this_host(self):
            datasets.load_dataset(self.path, self.config, **self.kwargs)

    def way_out(self, why: str) -> str:
        """The sentence that says what is missing, why, and what to do."""
        return (
            f"the data set {self} is not in this host's cache, and {why}: fetch it where there is "
            "a network (docs/lm-eval.md)"
        )

    def lock_name(self, environ: Mapping[str, str]) -> str:
        """The same for all processes that read the same data from the same cache."""
        public = {name: value for name, value in self.kwargs.items() if name not in _SECRET}
        caches = [str(datasets_cache(environ)), str(hub_cache(environ))]
        return f"{self.path}-{content_digest([self.path, self.config, public, caches])[:16]}"


def remote_data(
    path: Any,
    config: Any,
    kwargs: Any,
    *,
    readers: tuple[str, ...],
    splits: Iterable[str | None] = (),
) -> RemoteData | None:
    """What a task's keys name, where it is not on this host by their own account."""
    arguments = dict(kwargs) if isinstance(kwargs, dict) else {}
    arguments.pop("trust_remote_code", None)
    if not isinstance(path, str) or not path or os.path.isdir(path):
        return None
    reader = path in readers
    if reader and "://" not in json.dumps(arguments, default=str):
        return None
    return RemoteData(
        path=path,
        config=None if config is None else str(config),
        kwargs=arguments,
        reader=reader,
        splits=tuple(dict.fromkeys(filter(None, splits))) or ("test",),
    )


@contextmanager
def alone_on_this_host(data: RemoteData | None) -> Iterator[None]:
    """Only one process at a time reads the data: the first fetches them, those who waited find
    them in the cache, and where it dies the next one goes on."""
    if data is None:
        yield
        return
    with locked(lock_file(data.lock_name(os.environ), os.environ)):
        yield


def _plain(name: str) -> str:
    """`datasets` writes a name in snake case; what is left of it does not depend on how."""
    return name.replace("_", "").lower()
