"""Where a campaign's results go: its folder, its result store and its result cache."""

from __future__ import annotations

from collections.abc import Mapping

from benchfleet import registry
from benchfleet.environment import NO_CACHE, has_password
from benchfleet.errors import PluginError, ResultsError

from .base import RESULTS
from .entry import Entry
from .schema_types import TEXT, Shape, doc

STORES: Mapping[str, Shape] = {
    "results": doc(
        TEXT,
        f"a folder ({RESULTS}), or a store for uploads as well: rsync://user@host/dir, "
        "s3://bucket/prefix; below it each campaign has its own",
    ),
    "result_cache": doc(
        TEXT,
        "a store of results by content, such as file:///mnt/team/cache: cells that it has are "
        "taken from there; none turns BENCHFLEET_RESULT_CACHE off",
    ),
}


def read_results(entry: Entry) -> tuple[str, str]:
    """The results folder of this machine, and the URL of the store."""
    base = entry.text(RESULTS)
    if not base.strip():
        entry.wrong(f"names no folder; remove it for {RESULTS}")
    if "://" not in base:
        if wrong := store_flaw(base):
            entry.wrong(wrong)
        return base, ""
    _check_store(entry, base)
    return RESULTS, base


def store_flaw(folder: str) -> str:
    """What is wrong with a folder that looks like a store, as ``s3:bucket``; "" if nothing."""
    scheme, colon, rest = folder.partition(":")
    scheme = scheme.lower()
    if not colon or scheme not in registry.names("stores"):
        return ""
    path = rest.lstrip("/")
    if scheme == "file":
        path = f"/{path}" if rest.startswith("/") else f"/path/to/{path}"
    return f"is no store; write {scheme}://{path} for one, or ./{folder} for a folder of that name"


def read_result_cache(entry: Entry) -> str:
    """The URL of the result cache; "" for the environment's."""
    url = entry.text()
    if "://" in url:
        _check_store(entry, url)
    elif url != NO_CACHE and not entry.absent:
        entry.wrong("is not a URL such as file:///mnt/team/cache or s3://bucket/cache, or none")
    return url


def _check_store(entry: Entry, url: str) -> None:
    """Note what is wrong with the URL of a result store."""
    scheme = url.partition("://")[0]
    if has_password(url):
        entry.wrong("holds a password, which all would see; keep it in the environment")
    elif scheme not in registry.names("stores"):
        entry.wrong(registry.no_such("stores", scheme))
    else:
        try:
            store = registry.load("stores", scheme)
            store(url, "")
            if module := store.missing_module(scheme):
                entry.wrong(f"{scheme}:// needs {module}; pip install {module}")
        except (PluginError, ResultsError, ValueError) as error:
            entry.wrong(str(error))
