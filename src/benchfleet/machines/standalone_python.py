"""A CPython that runs wherever it is unpacked, for hosts without a Python of their own.

The builds are those of python-build-standalone, pinned by digest, for glibc. An archive is
downloaded once to this machine and then sent to hosts, which need no network for it.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from benchfleet.environment import own_cache
from benchfleet.errors import BenchfleetError

ARCHIVE = "BENCHFLEET_PYTHON_ARCHIVE"  # a .tar.gz of the user's own with python/bin/python3
_RELEASES = "https://github.com/astral-sh/python-build-standalone/releases/download"
_RELEASE, _VERSION = "20240909", "3.12.6"
_DIGESTS = {  # SHA-256, by machine as uname names it
    "x86_64": "b080463e4f0c452e592cdac1ca97936a6a19bb3d9a64da669a50ca843fce0108",
    "aarch64": "22d119ac7df7f0bddfd4dfd075bcc4eb2532ed3df0bdba0579106835d49ef9cd",
}
_TIMEOUT_S = 60.0  # without a byte
_BLOCK_BYTES = 2**20


def standalone_python(
    machine: str, environ: Mapping[str, str] | None = None, *, releases: str = _RELEASES
) -> Path:
    """The archive for hosts of this machine type, from BENCHFLEET_PYTHON_ARCHIVE, the cache, or the
    network. Raises BenchfleetError, saying what to do."""
    environ = os.environ if environ is None else environ
    if own := environ.get(ARCHIVE):
        file = Path(own).expanduser()
        if not file.is_file():
            raise BenchfleetError(f"{ARCHIVE} names {file}, which is no file; correct it")
        return file
    if (digest := _DIGESTS.get(machine)) is None:
        machines = " and ".join(_DIGESTS)
        raise BenchfleetError(f"there is none for {machine}, but for {machines}")
    name = f"cpython-{_VERSION}+{_RELEASE}-{machine}-unknown-linux-gnu-install_only_stripped.tar.gz"
    file = own_cache(environ) / "python" / name
    if not file.is_file():
        _download(f"{releases}/{_RELEASE}/{name.replace('+', '%2B')}", file, digest)
    return file


def _download(url: str, file: Path, digest: str) -> None:
    """Download a file whole, or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    received = hashlib.sha256()
    part = NamedTemporaryFile(dir=file.parent, prefix=f"{file.name}.", delete=False)  # noqa: SIM115
    try:
        with part, urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - ours
            while block := answer.read(_BLOCK_BYTES):
                received.update(block)
                part.write(block)
        if received.hexdigest() != digest:
            raise BenchfleetError(
                f"{url} has another digest than {digest[:12]}…; name a .tar.gz in {ARCHIVE}"
            )
        Path(part.name).rename(file)
    except OSError as error:
        raise BenchfleetError(
            f"{url} cannot be downloaded ({error}); name a .tar.gz in {ARCHIVE}"
        ) from None
    finally:
        with suppress(OSError):
            os.unlink(part.name)
