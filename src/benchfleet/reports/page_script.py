"""The script of an HTML page, with all that it needs to draw charts without a network."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from benchfleet.domain.canonical import content_digest
from benchfleet.environment import own_cache
from benchfleet.results.disk import write_atomically


def page_script(snippet: str) -> str:
    """The snippet together with `vegaEmbed`, which it calls. Making it takes two seconds, so it is
    kept in the user's cache."""
    import vl_convert

    key = content_digest([version("vl-convert-python"), snippet])
    file = own_cache(os.environ) / "reports" / f"{key[:16]}.js"
    return _cached(file) or _add(file, str(vl_convert.javascript_bundle(snippet)))


def _cached(file: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return file.read_bytes().decode()
    return ""


def _add(file: Path, script: str) -> str:
    with suppress(OSError):  # a full disk, or a home that cannot be written
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, script)
    return script
