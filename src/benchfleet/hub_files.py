"""The files of a repository of the hub, with their sizes: one small request, nothing heavy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

from benchfleet.environment import hub_cache, hub_token
from benchfleet.reachability import HUB

_TIMEOUT_S = 1.5  # of the answer; a plan waits for it


def file_sizes(
    kind: Literal["models", "datasets"],
    name: str,
    revision: str,
    *,
    environ: Mapping[str, str],
) -> dict[str, int]:
    """Bytes of each file by its path; empty where the hub does not say in time.

    A repository of more than a thousand files gives only the first of them.
    """
    from urllib.parse import quote
    from urllib.request import Request, urlopen

    base = environ.get("HF_ENDPOINT", "").rstrip("/") or HUB
    if not base.startswith(("http://", "https://")):
        return {}
    url = f"{base}/api/{kind}/{quote(name)}/tree/{quote(revision, safe='')}?recursive=true"
    request = Request(url, headers={"User-Agent": "benchfleet"})  # noqa: S310 - http or https
    if token := hub_token(environ):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - http or https
            entries = json.loads(answer.read())
        return {one["path"]: int(one["size"]) for one in entries if one.get("type") == "file"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def repository_bytes(
    kind: Literal["models", "datasets"], name: str, environ: Mapping[str, str]
) -> int:
    """What of a repository lies in the local cache, finished files or not."""
    folder = hub_cache(environ) / f"{kind}--{name.replace('/', '--')}" / "blobs"
    total = 0
    for file in folder.glob("*"):
        with suppress(OSError):  # renamed since
            total += file.stat().st_size
    return total
