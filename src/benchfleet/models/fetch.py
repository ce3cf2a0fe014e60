"""Models of the hub on this host: identified by their commit, fetched once for all processes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Model
from benchfleet.environment import hub_cache, hub_token, offline, without_token
from benchfleet.errors import CellFailure
from benchfleet.host_lock import lock_file, locked, unfinished
from benchfleet.models.digest import hub_name, model_digest, model_folder
from benchfleet.models.hub import HubUnreachable, commit_of, gated

Download = Callable[[str, str, Path], None]  # name, commit, cache
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


def is_current(source: str, digest: str) -> bool:
    """Whether `source` still is what `digest` says; a hub commit always is."""
    return hub_name(source) is not None or model_digest(source) == digest


def fetched_folder(
    source: str,
    commit: str,
    *,
    environ: Mapping[str, str] | None = None,
    download: Download | None = None,
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
    # Another cache is another fetch.
    lock = lock_file(f"{pinned}-{content_digest(str(cache))[:8]}", environ)
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
        mark.finish()
        _refer(source, cache, name, revision, commit, environ)
    return folder


def model_files(model: Model) -> Path:
    """`fetched_folder` of a model, in a slot. Raises CellFailure where it cannot be had."""
    try:
        return fetched_folder(model.source, model.digest)
    except ValueError as error:
        raise CellFailure(stage="load", kind="model_not_found", message=str(error)) from error


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
            stage="load",
            kind="error",
            message=f"fetching {name} from the hub broke off: {type(error).__name__}: "
            f"{without_token(str(error))}",
            retryable=True,
        ) from error
