"""What a model folder holds, as a digest: of files once hashed, or of a hub snapshot's commit.

A digest of a large file is computed once: it is remembered by device, inode, size and
modification time under ``$XDG_CACHE_HOME/benchfleet/digests``, one small file each, so that any
number of processes may read and write at once. Where nothing can be remembered, it is only slower.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchfleet.domain.canonical import content_digest
from benchfleet.environment import hub_cache, own_cache
from benchfleet.file_digest import file_digest

_KINDS = {".safetensors", ".bin", ".pt", ".pth", ".json", ".model", ".txt", ".tiktoken"}
_KINDS |= {".jinja", ".py", ".gguf"}
_NOT_THE_MODEL = re.compile(
    r"(readme|license|licence|notice|use_policy|requirements|training_args|trainer_state"
    r"|optimizer|scheduler|scaler|rng_state)\b.*|rng_state_.*",
    re.IGNORECASE,
)
_TEMPLATES = "additional_chat_templates"
_HUB_NAME = re.compile(
    r"(?P<name>\w[\w.-]*(?:/\w[\w.-]*)?)(?:@(?P<revision>\w[\w./-]*))?", re.ASCII
)
_SHA256 = re.compile("[0-9a-f]{64}")
_MAX_HEADER_BYTES = 100 * 10**6  # the limit of the safetensors format
_SETTLE_S = 2.0  # seconds: a younger file may change again without a change of its time


def hub_name(source: str) -> tuple[str, str] | None:
    """The name and the revision where `source` names a model of the hub; None for a folder."""
    if source.startswith((".", "/", "~")) or Path(source).is_dir():
        return None
    match = _HUB_NAME.fullmatch(source)
    return (match["name"], match["revision"] or "main") if match else None


def files_digest(root: Path) -> str:
    """The digest of a file, or of every file in a folder. Raises ValueError where there is none."""
    if not root.exists():
        raise ValueError(f"{root} is not there")
    cache = own_cache(os.environ) / "digests"
    if root.is_file():
        return cached_file_digest(root, cache=cache)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return content_digest(
        [
            [path.relative_to(root).as_posix(), cached_file_digest(path, cache=cache)]
            for path in files
        ]
    )


def model_digest(source: str, *, environ: Mapping[str, str] | None = None) -> str:
    """The identity of the model that `source` names: a folder's content, or a hub commit.

    Raises ValueError with what to do where there is no such model here.
    """
    environ = os.environ if environ is None else environ
    folder = model_folder(source, environ=environ)
    if hub_name(source):
        return folder.name
    cache = own_cache(environ) / "digests"
    return content_digest(
        [[name, cached_file_digest(path, cache=cache)] for name, path in _files(folder).items()]
    )


def model_folder(source: str, *, environ: Mapping[str, str] | None = None) -> Path:
    """Where the files of `source` lie: itself, or the snapshot in the Hugging Face cache.

    Raises ValueError with what to do where it is no model or is not complete.
    """
    if hub_name(source):
        folder = _snapshot(source, os.environ if environ is None else environ)
    else:
        folder = Path(source).expanduser()
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "is not there"
            raise ValueError(f"{folder} {what}; name the folder that holds config.json")
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} holds no config.json; name the folder of a saved model")
    missing = _missing_weights(folder)
    if missing:
        raise ValueError(f"{folder} holds {missing}; download or save the model again")
    return folder


def checkpoint_config(source: str, *, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The content of a checkpoint's config.json; empty where this host does not have it."""
    try:
        if hub_name(source):
            folder = _snapshot(source, os.environ if environ is None else environ)
        else:
            folder = Path(source).expanduser()
        content = json.loads((folder / "config.json").read_text("utf-8"))
    except (ValueError, OSError):
        return {}
    return content if isinstance(content, dict) else {}


def cached_models(*, environ: Mapping[str, str] | None = None) -> list[str]:
    """The names of the complete models in the local Hugging Face cache, each as `model_folder`
    takes it: with a revision where no ``main`` is there."""
    environ = os.environ if environ is None else environ
    names = []
    for repository in sorted(hub_cache(environ).glob("models--*")):
        name = repository.name.removeprefix("models--").replace("--", "/")
        pinned = sorted(f"{name}@{folder.name}" for folder in repository.glob("snapshots/*"))
        for source in (name, *pinned):
            with suppress(ValueError, OSError):  # one that is not complete is no model yet
                model_folder(source, environ=environ)
                names.append(source)
                break
    return names


def cached_file_digest(path: Path, *, cache: Path, now: Callable[[], float] = time.time) -> str:
    """The SHA-256 of a file, from `cache` where it was computed before."""
    before = path.stat()
    key = "-".join(
        f"{part:x}" for part in (before.st_dev, before.st_ino, before.st_size, before.st_mtime_ns)
    )
    cache_file = cache / key
    with suppress(OSError, UnicodeDecodeError):
        if _SHA256.fullmatch(cached := cache_file.read_text("ascii")):
            return cached
    digest = file_digest(path)
    after = path.stat()
    unchanged = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    if unchanged and abs(now() - after.st_mtime) > _SETTLE_S:
        _remember(cache_file, digest)
    return digest


def _remember(cache_file: Path, digest: str) -> None:
    # A cache that cannot be written costs time and nothing else.
    with suppress(OSError):
        cache_file.parent.mkdir(parents=True, exist_ok=True)
        draft = cache_file.with_name(f".{cache_file.name}-{os.getpid()}")
        draft.write_text(digest, "ascii")
        os.replace(draft, cache_file)


def _files(folder: Path) -> dict[str, Path]:
    """The files that make the model what it is, by their names within the folder, sorted."""
    entries = [*folder.iterdir(), *(folder / _TEMPLATES).glob("*.jinja")]
    return {
        str(path.relative_to(folder)): path
        for path in sorted(entries)
        if path.suffix in _KINDS
        and not path.name.startswith(".")
        and not _NOT_THE_MODEL.fullmatch(path.name)
        and path.is_file()
    }


def _missing_weights(folder: Path) -> str:
    """What of the weights is not there, in words; ``""`` where all are."""
    indexes = sorted(folder.glob("*.safetensors.index.json")) or sorted(
        folder.glob("*.bin.index.json")
    )
    cut = [file.name for file in sorted(folder.glob("*.safetensors")) if _is_truncated(file)]
    if cut:
        return f"a file of weights that is cut off, {cut[0]}"
    for index in indexes:
        try:
            shards = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"an index of weights that cannot be read, {index.name}"
        missing = sorted(shard for shard in shards if not (folder / shard).is_file())
        if missing:
            return f"{len(shards) - len(missing)} of its {len(shards)} files of weights"
    if any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin")):
        return ""
    return "no weights (*.safetensors)"


def _is_truncated(file: Path) -> bool:
    """Whether a safetensors file is shorter than its header says: 8 bytes for the header's length,
    the header, and the data up to its largest offset."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size <= 8 or length > _MAX_HEADER_BYTES:
            return size == 0  # no safetensors at all: transformers names the reason
        header = stream.read(length)
    try:
        tensors = [part for name, part in json.loads(header).items() if name != "__metadata__"]
        return size < 8 + length + max((part["data_offsets"][1] for part in tensors), default=0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return size < 8 + length


def _snapshot(source: str, environ: Mapping[str, str]) -> Path:
    match = _HUB_NAME.fullmatch(source)
    name, revision = (match["name"], match["revision"]) if match else (source, None)
    cache = hub_cache(environ)
    repository = cache / f"models--{name.replace('/', '--')}"
    reference = revision or "main"
    if ".." in reference.split("/"):
        raise ValueError(f"invalid revision {reference!r}; name a branch, a tag or a commit")
    with suppress(OSError):
        reference = (repository / "refs" / reference).read_text("utf-8").strip()
    folder = repository / "snapshots" / reference
    if "/" in reference or not folder.is_dir():
        option = f" --revision {revision}" if revision else ""
        raise ValueError(
            f"folder {source} not found, and {source} is not in the Hugging Face cache {cache};"
            f" download it first: hf download {name}{option}"
        )
    return folder
