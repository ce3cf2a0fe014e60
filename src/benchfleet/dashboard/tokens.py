"""One-time links and sessions: both are signed with a key that only this user can read.

A link is spent once and lives for a quarter of an hour. A session lives for two weeks, also when
the server is started again. Both hold for one port.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from benchfleet.environment import own_cache

LINK_LIFETIME_S = 900.0
SESSION_LIFETIME_S = 14 * 86_400.0
_KEY_BYTES = 32
Purpose = Literal["link", "session"]


class Tokens:
    """Makes and checks the tokens of the dashboard at one port."""

    def __init__(self, key: bytes, port: int, clock: Callable[[], float] = time.time) -> None:
        self._key, self.port, self._clock = key, port, clock
        self._spent: dict[str, float] = {}  # links, each with its end
        self._lock = threading.Lock()

    @property
    def cookie(self) -> str:
        """The session's cookie. Cookies ignore ports, so the name has it."""
        return f"benchfleet-{self.port}"

    def link(self) -> str:
        """A token that opens one session."""
        return self._signed("link", LINK_LIFETIME_S)

    def session(self) -> str:
        """A token that lets its holder give orders; an API client sends it as a bearer token."""
        return self._signed("session", SESSION_LIFETIME_S)

    def spend(self, token: str) -> bool:
        """Whether the link is valid and was not used before."""
        if not self._is_valid("link", token):
            return False
        now = self._clock()
        with self._lock:
            self._spent = {one: end for one, end in self._spent.items() if end > now}
            if token in self._spent:
                return False
            self._spent[token] = now + LINK_LIFETIME_S
        return True

    def is_session(self, token: str) -> bool:
        """Whether its holder may give orders."""
        return self._is_valid("session", token)

    def _signed(self, purpose: Purpose, lifetime: float) -> str:
        body = f"{int(self._clock() + lifetime)}.{secrets.token_urlsafe(12)}"
        return f"{body}.{self._signature(purpose, body)}"

    def _signature(self, purpose: Purpose, body: str) -> str:
        text = f"{purpose}:{self.port}:{body}".encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()

    def _is_valid(self, purpose: Purpose, token: str) -> bool:
        body, _, signature = token.rpartition(".")
        expected = self._signature(purpose, body)
        if not hmac.compare_digest(expected.encode(), signature.encode()):
            return False
        return int(body.partition(".")[0]) > self._clock()


def own_key(environ: Mapping[str, str]) -> bytes:
    """The key in this user's cache folder, made once. Raises OSError."""
    file = own_cache(environ) / "dashboard.key"
    try:
        key = _read_key(file)
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(draft, file)  # of two servers that start now, one wins
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        key = _read_key(file)
    return key


def _read_key(file: Path) -> bytes:
    """Raises PermissionError if others can read it."""
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as opened:
        status = os.fstat(opened.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(f"{file} is readable by others: delete it, and start again")
        return opened.read()
