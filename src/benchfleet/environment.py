"""What the environment says of caches, leases, the hub and this host's name, and the token that
it must not tell.

Reading it takes no third-party package, so that a campaign is checked at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TRUE = {"1", "on", "yes", "true"}
TRUST = "BENCHFLEET_TRUST"
LEASE = "BENCHFLEET_LEASE_SECONDS"
HOST = "BENCHFLEET_HOST"
HOST_FILE = "runner_hostname.txt"
_SHORTEST_LEASE, _LONGEST_LEASE = 2.0, 86400.0  # seconds
_LONGEST_NAME = 100  # characters of a host's name, which stands in names of files
_SHORTEST = 8  # characters of a secret; taking out less would tear words apart


def own_cache(environ: Mapping[str, str]) -> Path:
    """Where benchfleet keeps what it could find out again."""
    return _user_cache(environ) / "benchfleet"


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Where the repositories of the hub lie on this host."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(name):
            return _expanded(environ[name])
    return _hub_home(environ) / "hub"


def datasets_cache(environ: Mapping[str, str]) -> Path:
    """Where `datasets` keeps the rows that it has read."""
    named = environ.get("HF_DATASETS_CACHE")
    return _expanded(named) if named else _hub_home(environ) / "datasets"


def offline(environ: Mapping[str, str], *, datasets: bool = False) -> str:
    """The variable that forbids asking the hub, for data sets too where asked; ``""`` where
    none does."""
    names = (*_OFFLINE, "HF_DATASETS_OFFLINE") if datasets else _OFFLINE
    return next((name for name in names if environ.get(name, "").lower() in _TRUE), "")


def hub_token(environ: Mapping[str, str]) -> str:
    """The user's token: from the environment, or where ``hf auth login`` left it."""
    for variable in _TOKENS:
        if token := _on_one_line(environ.get(variable, "")):
            return token
    with suppress(OSError, UnicodeDecodeError):
        place = environ.get("HF_TOKEN_PATH")
        file = _expanded(place) if place else _hub_home(environ) / "token"
        return _on_one_line(file.read_text("utf-8"))
    return ""


def lease_seconds(environ: Mapping[str, str]) -> float | None:
    """How long leases are to last here; None where nothing is said. For tests, and for runners
    that are to be missed sooner or later than usual.

    Raises ValueError for what is no such time.
    """
    said = environ.get(LEASE, "").strip()
    if not said:
        return None
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if not _SHORTEST_LEASE <= seconds <= _LONGEST_LEASE:
        raise ValueError(
            f"{LEASE} is {said!r}; write seconds from {_SHORTEST_LEASE:g} to {_LONGEST_LEASE:g}, "
            "or leave it out"
        )
    return seconds


def trusted(environ: Mapping[str, str]) -> list[str]:
    """The ledgers and campaigns whose code may run here, by address and by name."""
    return [one for part in environ.get(TRUST, "").split(",") if (one := part.strip())]


def host_name(folder: Path | None = None, environ: Mapping[str, str] | None = None) -> str:
    """What this host is called: by BENCHFLEET_HOST, else in a ``runner_hostname.txt`` of the
    current folder or of `folder`, the campaign's; else by its system. One path part, which can
    stand in a branch's name too. Raises ValueError for a name of which nothing is left so.
    """
    environ = os.environ if environ is None else environ
    said, by = environ.get(HOST, "").strip(), HOST
    for place in (Path.cwd(), folder):
        if not said and place is not None:
            with suppress(OSError, UnicodeDecodeError):
                file = place / HOST_FILE
                said, by = file.read_text("utf-8-sig").strip(), str(file)
    if not said:
        import socket  # takes longer than all the rest here

        said, by = socket.gethostname(), "the system"
    name = re.sub(r"\.{2,}", ".", re.sub(r"[^\w.-]+", "_", said)).strip(".-_")
    if not name or len(name) > _LONGEST_NAME or name.endswith(".lock"):
        raise ValueError(f"{by} calls this host {said[:80]!r}; name it by letters and digits")
    return name


def without_token(text: str, environ: Mapping[str, str] | None = None) -> str:
    """`text` with the user's token taken out, also where it stands as Python quotes it: libraries
    tell a header that cannot be sent."""
    environ = os.environ if environ is None else environ
    told = {environ.get(name, "").strip() for name in _TOKENS} | {hub_token(environ)}
    for secret in sorted(told, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            for form in (secret, repr(secret)[1:-1], repr(secret.encode(errors="replace"))[2:-1]):
                text = text.replace(form, "[token]")
    return text


def _on_one_line(token: str) -> str:
    return token.replace("\r", "").replace("\n", "").strip()


def _hub_home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HF_HOME")
    return _expanded(home) if home else _user_cache(environ) / "huggingface"


def _user_cache(environ: Mapping[str, str]) -> Path:
    return _expanded(environ.get("XDG_CACHE_HOME") or "~/.cache")


def _expanded(path: str) -> Path:
    return Path(os.path.expandvars(path)).expanduser()
