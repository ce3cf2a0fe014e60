"""Settings from the environment: caches, leases, the hub, this host's name, and the hub token.

Reading it takes no third-party package, so that a campaign is checked at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TRUE = {"1", "on", "yes", "true"}
TRUST = "BENCHFLEET_TRUST"
LEASE = "BENCHFLEET_LEASE_SECONDS"
RETURN = "BENCHFLEET_RETURN_SECONDS"
HOST = "BENCHFLEET_HOST"
RESULT_CACHE = "BENCHFLEET_RESULT_CACHE"
NO_CACHE = "none"  # as the address of a result cache
HOST_FILE = "runner_hostname.txt"
_MIN_SECONDS, _MAX_SECONDS = 2.0, 86400.0  # of settings
_RETURN_S = 600.0
_MAX_NAME_CHARACTERS = 100  # characters of a host's name, which stands in names of files
_HIDDEN: set[str] = set()  # keys of servers that this process uses
# Variables that have such keys; at first the usual ones of the providers of rented machines.
_HIDDEN_VARIABLES = {"VAST_API_KEY", "RUNPOD_API_KEY", "TENSORDOCK_API_KEY"}
_MIN_SECRET_CHARACTERS = 8  # characters of a secret; taking out less would tear words apart


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
    for variable in TOKENS:
        if token := _on_one_line(environ.get(variable, "")):
            return token
    with suppress(OSError, UnicodeDecodeError):
        configured = environ.get("HF_TOKEN_PATH")
        file = _expanded(configured) if configured else _hub_home(environ) / "token"
        return _on_one_line(file.read_text("utf-8"))
    return ""


def lease_seconds(environ: Mapping[str, str]) -> float | None:
    """The lease duration that the environment sets, in seconds; None without one.

    Raises ValueError for an invalid value.
    """
    return _seconds(LEASE, environ)


def return_seconds(environ: Mapping[str, str]) -> float:
    """How long to wait at most for the proof that rented machines are gone, in seconds.

    Raises ValueError for an invalid value.
    """
    return _seconds(RETURN, environ) or _RETURN_S


def _seconds(name: str, environ: Mapping[str, str]) -> float | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        raise ValueError(
            f"invalid {name} {text!r}: use seconds from {_MIN_SECONDS:g} to {_MAX_SECONDS:g}, "
            "or leave it out"
        )
    return seconds


def batch_job(environ: Mapping[str, str]) -> str:
    """The Slurm job that this process is part of, as squeue names it; "" outside of one."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else environ.get("SLURM_JOB_ID", "")


def trusted(environ: Mapping[str, str]) -> list[str]:
    """The ledgers and campaigns whose code may run here, by address and by name."""
    return [one for part in environ.get(TRUST, "").split(",") if (one := part.strip())]


def has_password(url: str) -> bool:
    """Whether a URL names a password, as in ``s3://user:password@host/path``."""
    return ":" in url.partition("://")[2].partition("/")[0].rpartition("@")[0]


def result_cache_url(environ: Mapping[str, str]) -> str:
    """The result cache of campaigns that name none; "" for none. Raises ValueError for other than
    a URL, and for one with a password."""
    url = environ.get(RESULT_CACHE, "").strip()
    if url and url != NO_CACHE and "://" not in url:
        raise ValueError(
            f"invalid {RESULT_CACHE} {url!r}: use a URL such as file:///mnt/team/cache, or none"
        )
    if has_password(url):
        raise ValueError(
            f"{RESULT_CACHE} holds a password, which results would show; keep it in the variables "
            "of the store"
        )
    return url


def host_name(folder: Path | None = None, environ: Mapping[str, str] | None = None) -> str:
    """This host's name: BENCHFLEET_HOST, else ``runner_hostname.txt`` in the current folder or in
    `folder` (the campaign's), else the system's host name. It is one valid path part and part of
    a branch name. Raises ValueError for an invalid name.
    """
    environ = os.environ if environ is None else environ
    name_text, by = environ.get(HOST, "").strip(), HOST
    for folder_path in (Path.cwd(), folder):
        if not name_text and folder_path is not None:
            with suppress(OSError, UnicodeDecodeError):
                file = folder_path / HOST_FILE
                name_text, by = file.read_text("utf-8-sig").strip(), str(file)
    if not name_text:
        import socket  # takes longer than all the rest here

        name_text, by = socket.gethostname(), "the system"
    name = re.sub(r"\.{2,}", ".", re.sub(r"[^\w.-]+", "_", name_text)).strip(".-_")
    if not name or len(name) > _MAX_NAME_CHARACTERS or name.endswith(".lock"):
        raise ValueError(
            f"invalid host name {name_text[:80]!r} from {by}: use letters and digits, at most "
            f"{_MAX_NAME_CHARACTERS} characters"
        )
    return name


def hide_secret(secret: str) -> None:
    """Take this secret out of messages too, from now on."""
    _HIDDEN.add(secret)


def hide_variable(name: str) -> None:
    """Leave this variable out of the environment of processes that are started from now on."""
    _HIDDEN_VARIABLES.add(name)


def hidden_variables() -> frozenset[str]:
    """The variables that processes started from now on do not get."""
    return frozenset(_HIDDEN_VARIABLES)


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a new process: ours, or `environ`, without the variables that are
    hidden."""
    environ = os.environ if environ is None else environ
    return {name: value for name, value in environ.items() if name not in _HIDDEN_VARIABLES}


def without_token(text: str, environ: Mapping[str, str] | None = None) -> str:
    """`text` with the user's token taken out, also where it stands as Python quotes it: libraries
    tell a header that cannot be sent."""
    environ = os.environ if environ is None else environ
    tokens = {environ.get(name, "").strip() for name in TOKENS} | {hub_token(environ)}
    tokens |= _HIDDEN
    for secret in sorted(tokens, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET_CHARACTERS:
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
