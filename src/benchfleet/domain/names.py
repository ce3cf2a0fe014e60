"""Turning the names that people write into path parts that every file system takes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

_FORBIDDEN = str.maketrans(dict.fromkeys('/\\:*?"<>|', "_"))
MAX_PART = 200  # bytes; leaves room for an '@fingerprint' within the usual limit of 255
FOLDER_ID = ".folder"  # the file in a campaign's results folder that has the id of that folder


@lru_cache(maxsize=4096)  # a matrix has many cells and few names
def path_part(name: str) -> str:
    """`name` as one path part: ``meta-llama/Llama-3.1-8B`` becomes ``meta-llama_Llama-3.1-8B``.

    Raises ValueError for what cannot be one: empty, ``.``, ``..``, a leading dot (kept for
    benchfleet's own folders), control characters, surrounding spaces, or more than 200 bytes.
    """
    part = name.translate(_FORBIDDEN)
    if not part:
        raise ValueError("a name may not be empty")
    if part.startswith("."):
        raise ValueError(f"{name!r} may not start with a dot; results folders bear this name")
    if part != part.strip() or any(ord(c) < 32 or ord(c) == 127 for c in part):
        raise ValueError(f"{name!r} holds surrounding spaces or control characters")
    if len(part.encode("utf-8", "surrogatepass")) > MAX_PART:
        raise ValueError(f"{name[:40]!r}… is longer than {MAX_PART} bytes")
    return part


def entry_name(id: str) -> str:
    """How a cell with that id is called in lists and in ``runs/``, in the order of the earlier
    tools: ``<benchmark>_<model>_<config>_<repeat>``. It is looked up and never taken apart."""
    model, config, benchmark, *repeat = id.split("/")
    return f"{benchmark}_{model}_{config}_{repeat[0].removeprefix('r') if repeat else 0}"


def folders_above(path: str) -> Iterator[str]:
    """The folders that a path of ``/`` lies in, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
