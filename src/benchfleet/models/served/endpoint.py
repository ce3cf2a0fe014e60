"""An endpoint: the address of a server, the key for it, and how much may be asked at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchfleet.domain import units
from benchfleet.domain.resource import server_name
from benchfleet.environment import hide_secret
from benchfleet.errors import CellFailure

DEFAULT_TIMEOUT_S = 600.0  # of one request with all its retries
DEFAULT_AT_ONCE = 8
OUTSIDE = ("url", "key", "timeout", "requests_at_once", "price")  # settings outside the identity
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a model is asked."""

    url: str  # without a slash at its end
    key: str = ""  # the secret itself; "" for none
    timeout_s: float = DEFAULT_TIMEOUT_S
    requests_at_once: int = DEFAULT_AT_ONCE

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, so that no proxy is used."""
        return urlsplit(self.url).hostname in _LOOPBACK

    @classmethod
    def of(cls, settings: Mapping[str, Any], *, url: str) -> Endpoint:
        """The endpoint at `url` with a model's settings. Raises CellFailure without its key."""
        timeout = settings.get("timeout")
        return cls(
            url=url.rstrip("/"),
            key=read_key(str(settings.get("key", ""))),
            timeout_s=units.duration(timeout) if timeout is not None else DEFAULT_TIMEOUT_S,
            requests_at_once=int(settings.get("requests_at_once", DEFAULT_AT_ONCE)),
        )


def problem(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the settings of an endpoint, or None."""
    url, key = settings.get("url"), settings.get("key")
    if url is not None and urlsplit(str(url)).scheme not in ("http", "https"):
        return f"invalid url {url!r}: write http://host:port/v1"
    if url is not None and not server_name(str(url)):
        return f"invalid url {url!r}: write http://host:port/v1"
    if key is not None and not str(key).startswith(("env:", "file:")):
        return "a key does not belong in a file; write env:NAME or file:PATH"
    at_once = settings.get("requests_at_once", 1)
    if isinstance(at_once, bool) or not isinstance(at_once, int) or at_once < 1:
        return f"requests_at_once must be a whole number from 1 up, not {at_once!r}"
    try:
        units.duration(settings.get("timeout", "1s"))
    except ValueError as error:
        return f"timeout: {error}"
    return None


def read_key(source: str) -> str:
    """The key at ``env:NAME`` or ``file:PATH``; ``""`` without a source. Raises CellFailure."""
    how, _, name = source.partition(":")
    if not how:
        return ""
    if how == "env":
        secret, problem_text = os.environ.get(name, ""), f"the variable {name} is not set"
    else:
        file = Path(name).expanduser()
        secret = file.read_text("utf-8") if file.is_file() else ""
        problem_text = f"the file {file} is missing or empty"
    if not (secret := secret.strip()):
        message = f"no key: {problem_text} on this host"
        raise CellFailure(stage="load", kind="wrong_key", message=message)
    hide_secret(secret)
    return secret
