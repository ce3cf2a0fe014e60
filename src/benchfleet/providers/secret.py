"""Keys of providers: read from the environment or a private file, and shown nowhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NoReturn

from benchfleet.environment import hide_secret, hide_variable
from benchfleet.errors import BenchfleetError

_MASK = "<secret>"


class SecretError(BenchfleetError):
    """A key cannot be read."""


class Secret:
    """A key that neither prints nor pickles."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself; for the Authorization header alone."""
        return self._value

    def redact(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._value, _MASK) if self._value else text

    def __repr__(self) -> str:
        return _MASK

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not to be stored")


def read_secret(source: str) -> Secret:
    """The key at ``env:NAME`` or ``file:PATH``. Raises SecretError.

    A file must be a regular one of our own that nobody else can read (mode 600).
    """
    kind, _, name = source.partition(":")
    if kind == "env" and name:
        value = os.environ.get(name, "").strip()
        if not value:
            raise SecretError(f"the environment has no {name}; set it to the provider's key")
        hide_variable(name)
        return _hidden(value)
    if kind == "file" and name:
        return _hidden(_read_private(Path(name).expanduser()))
    raise SecretError(f"{source!r} is not the source of a key; write env:NAME or file:PATH")


def _hidden(value: str) -> Secret:
    hide_secret(value)
    return Secret(value)


def _read_private(file: Path) -> str:
    try:
        status = file.stat()
        private = status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
        if not stat.S_ISREG(status.st_mode) or not private:
            raise SecretError(f"{file} can be read by others; run chmod 600 {file}")
        value = file.read_text().strip()
    except (OSError, UnicodeError) as error:
        raise SecretError(f"{file} cannot be read: {error}") from error
    if not value:
        raise SecretError(f"{file} is empty; write the provider's key into it")
    return value
