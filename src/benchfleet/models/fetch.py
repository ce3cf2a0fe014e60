"""Models of the hub on this host: identified by their commit, fetched once for all processes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Model
from benchfleet.download import Download
from benchfleet.environment import hub_cache, hub_token, offline, without_token
from benchfleet.errors import CellFailure
from benchfleet.host_lock import lock_file, locked, unfinished
from benchfleet.hub_files import file_sizes, repository_bytes
from benchfleet.models.digest import hub_name, model_digest, model_folder
from benchfleet.models.hub import HubUnreachable, commit_of, config_of, gated, revisions_of
from benchfleet.models.verify_download import remove_damaged_files

FromHub = Callable[[str, str, Path], None]  # name, commit, cache
_TEXTS = {".json", ".txt", ".model", ".tiktoken", ".jinja", ".py"}
_OTHER_WEIGHTS = {".bin", ".pt", ".pth"}


def declared_digest(source: str, *, environ: Mapping[str, str] | None = None) -> str:
    """The identity of what `source` names: a folder's content or a hub commit, which the hub is
    asked for where the local cache does not hold it.

    Raises ValueError with what to do where there is no such model.
    """
    environ = os.environ if environ is None else environ
    try:
        return model_digest(source, environ=environ)
    except ValueError as error:
        named = hub_name(source)
        if named is None:
            raise
        try:
            return commit_of(*named, environ=environ)
        except HubUnreachable as why:
            raise ValueError(f"{error} (the hub could not be asked: {why})") from None


def known_revisions(name: str, *, environ: Mapping[str, str] | None = None) -> list[str]:
    """The branches and tags of a hub's model; those in the local cache if it cannot be asked.

    Raises ValueError where the hub has no such model.
    """
    environ = os.environ if environ is None else environ
    try:
        return revisions_of(name, environ=environ)
    except HubUnreachable:
        folder = hub_cache(environ) / f"models--{name.replace('/', '--')}" / "refs"
        return [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]


def check_current(source: str, declared: str, digest: str) -> None:
    """Raise CellFailure if `source` is not what the campaign read any more, by its digests."""
    if declared != digest:
        message = f"{source} has changed since the campaign was read; run it again"
        raise CellFailure(stage="load", kind="user_error", message=message)


def fetched_folder(
    source: str,
    commit: str,
    *,
    environ: Mapping[str, str] | None = None,
    download: FromHub | None = None,
) -> Path:
    """Where the files of `source` lie: a folder itself, or the hub's snapshot of the commit.

    A missing model is fetched under a lock: other processes on this host wait for it, and one of
    them takes over if the fetching process dies. Raises ValueError with what to do where
    it cannot be had, and CellFailure where trying again may help.
    """
    environ = os.environ if environ is None else environ
    named = hub_name(source)
    if named is None:
        return model_folder(source, environ=environ)
    (name, revision), cache = named, hub_cache(environ)
    pinned = f"{name}@{commit}"
    lock = _lock(pinned, environ)
    if folder := _complete(pinned, lock, environ):
        return folder
    if variable := offline(environ):
        try:
            return model_folder(pinned, environ=environ)
        except ValueError as error:
            raise ValueError(f"{error} ({variable} is set, so it was not fetched)") from None
    with locked(lock) as mark:
        if folder := _complete(pinned, lock, environ):
            return folder
        mark.begin()
        (download or _from_hub)(name, commit, cache)
        folder = model_folder(pinned, environ=environ)
        if damaged := remove_damaged_files(folder):
            what = f"{', '.join(damaged)} of {source}"
            message = f"{what} came without the digest of the hub; wait: it is fetched again"
            raise CellFailure(stage="pull", kind="error", message=message, retryable=True)
        mark.finish()
        _refer(source, cache, name, revision, commit, environ)
    return folder


def model_files(model: Model) -> Path:
    """`fetched_folder` of a model, in a slot. Raises CellFailure if it cannot be had, or if a
    folder has changed; a hub commit never does."""
    try:
        folder = fetched_folder(model.source, model.digest)
        digest = model.digest if hub_name(model.source) else model_digest(model.source)
    except ValueError as error:
        raise CellFailure(stage="load", kind="model_not_found", message=str(error)) from error
    check_current(model.source, model.digest, digest)
    return folder


def files_here(model: Model) -> Path:
    """The folder of the model's files, which are not fetched. Raises CellFailure if they are not
    on this host."""
    pinned = hub_name(model.source)
    try:
        return model_folder(f"{pinned[0]}@{model.digest}" if pinned else model.source)
    except ValueError as error:
        message = f"{error}; benchfleet fetch brings the files of the hub's models"
        raise CellFailure(stage="load", kind="model_not_found", message=message) from error


@dataclass(frozen=True, kw_only=True)
class HubModel(Download):
    """A model of the hub, at a commit."""

    kind: ClassVar[str] = "model"
    source: str  # as the campaign names it
    commit: str

    def __str__(self) -> str:
        return self.source

    def is_here(self, environ: Mapping[str, str]) -> bool:
        pinned = f"{self._name}@{self.commit}"
        return _complete(pinned, _lock(pinned, environ), environ) is not None

    def fetch(self, environ: Mapping[str, str]) -> None:
        fetched_folder(self.source, self.commit, environ=environ)

    def size(self, environ: Mapping[str, str]) -> int | None:
        sizes = file_sizes("models", self._name, self.commit, environ=environ)
        return sum(sizes[file] for file in needed_files(list(sizes))) or None

    def received(self, environ: Mapping[str, str]) -> int:
        return repository_bytes("models", self._name, environ)

    def weights(self, environ: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """The bytes of its weights and its config.json, without fetching it; 0 if the hub does not
        tell. Raises ValueError if it gives the model to nobody like us."""
        sizes = file_sizes("models", self._name, self.commit, environ=environ)
        needed = (file for file in needed_files(list(sizes)) if Path(file).suffix not in _TEXTS)
        size = sum(sizes[file] for file in needed)
        return size, config_of(self._name, self.commit, environ=environ) if size else {}

    @property
    def _name(self) -> str:
        name, _ = hub_name(self.source) or (self.source, "")
        return name


def hub_downloads(model: Model) -> list[HubModel]:
    """The model where it is one of the hub; empty for a folder."""
    if hub_name(model.source) is None:
        return []
    return [HubModel(source=model.source, commit=model.digest)]


def needed_files(files: Sequence[str]) -> list[str]:
    """The files of a repository that transformers needs: one format of weights, not all."""
    top = [file for file in files if "/" not in file]
    weights = [file for file in top if file.endswith(".safetensors")]
    sharded = [file for file in weights if not file.startswith("consolidated")] or weights
    others = [file for file in top if Path(file).suffix in _OTHER_WEIGHTS]
    texts = [
        file
        for file in files
        if Path(file).suffix in _TEXTS
        and ("/" not in file or file.startswith("additional_chat_templates/"))
    ]
    return sorted({*texts, *(sharded or others)})


def _lock(pinned: str, environ: Mapping[str, str]) -> Path:
    # Another cache is another fetch.
    return lock_file(f"{pinned}-{content_digest(str(hub_cache(environ)))[:8]}", environ)


def _complete(pinned: str, lock: Path, environ: Mapping[str, str]) -> Path | None:
    """The folder, unless it lacks something or a fetch of it is, or was, cut short."""
    if unfinished(lock):
        return None
    try:
        return model_folder(pinned, environ=environ)
    except ValueError:
        return None


def _refer(
    source: str, cache: Path, name: str, revision: str, commit: str, environ: Mapping[str, str]
) -> None:
    """Let the name mean this commit where it means nothing yet, so that it is found offline."""
    reference = cache / f"models--{name.replace('/', '--')}" / "refs" / revision
    with suppress(ValueError):
        model_folder(source, environ=environ)
        return
    if revision != commit and ".." not in revision.split("/"):
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text(commit, "ascii")


def _from_hub(name: str, commit: str, cache: Path) -> None:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    token = hub_token(os.environ) or None
    try:
        files = needed_files(HfApi(token=token).list_repo_files(name, revision=commit))
        snapshot_download(name, revision=commit, cache_dir=cache, allow_patterns=files, token=token)
    except GatedRepoError as error:
        raise ValueError(gated(name, token is not None)) from error
    except RepositoryNotFoundError as error:
        raise ValueError(f"the hub has no model {name} for this user; is HF_TOKEN set?") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise CellFailure(
            stage="pull",
            kind="error",
            message=f"fetching {name} from the hub broke off: {type(error).__name__}: "
            f"{without_token(str(error))}",
            retryable=True,
        ) from error
