"""The running benchfleet as a wheel, made without any tool, and the name of its environments."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import benchfleet
from benchfleet.domain.host import Host
from benchfleet.errors import BenchfleetError

PACKAGE = Path(benchfleet.__file__).parent
_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip knows no earlier time; one for all keeps the bytes the same
_WHEEL = "Wheel-Version: 1.0\nGenerator: benchfleet\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
# Files about the installation, not of the package.
_LOCAL_METADATA = {"INSTALLER", "RECORD", "REQUESTED", "WHEEL", "direct_url.json", "uv_cache.json"}


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A wheel in memory."""

    name: str  # of its file
    data: bytes


@cache
def environment_name() -> str:
    """``<version>-<8 digits>`` of the running benchfleet's files: the same wherever it runs."""
    digest = hashlib.sha256()
    for name, data in _package_files():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return f"{benchfleet.__version__}-{digest.hexdigest()[:8]}"


def environment_of(host: Host) -> str:
    """The folder on the host of the environment that `bootstrap` makes for this benchfleet."""
    return f"{host.folder.rstrip('/')}/envs/{environment_name()}"


def interpreter_of(host: Host) -> str:
    """The interpreter on the host that runs benchfleet: its own, or that of our environment."""
    return host.python or f"{environment_of(host)}/bin/python"


def running_wheel() -> Wheel:
    """The running benchfleet, from a checkout or installed, as a wheel with the same bytes each
    time. Raises BenchfleetError where it was not installed at all."""
    stem = f"benchfleet-{benchfleet.__version__}"
    record = f"{stem}.dist-info/RECORD"
    lines = []
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        metadata = ((f"{stem}.dist-info/{name}", data) for name, data in _metadata_files())
        for name, data in [*_package_files(), *metadata]:
            _add(archive, name, data)
            lines.append(f"{name},sha256={_checksum(data)},{len(data)}")
        _add(archive, record, "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode())
    return Wheel(name=f"{stem}-py3-none-any.whl", data=buffer.getvalue())


def installed() -> Distribution:
    """What Python knows of the installed benchfleet. Raises BenchfleetError where nothing."""
    try:
        return distribution("benchfleet")
    except PackageNotFoundError:
        raise BenchfleetError(
            "benchfleet runs here without being installed, so it cannot be sent; "
            f"install it: python -m pip install {PACKAGE.parents[1]}"
        ) from None


def _package_files() -> Iterator[tuple[str, bytes]]:
    """Every file that belongs to the package, by its name in a wheel."""
    for file in sorted(PACKAGE.rglob("*"), key=lambda file: file.as_posix()):
        parts = file.relative_to(PACKAGE.parent).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if file.is_file() and not hidden and file.suffix != ".pyc":
            yield "/".join(parts), file.read_bytes()


def _metadata_files() -> Iterator[tuple[str, bytes]]:
    """The files of the .dist-info folder, by their names in it."""
    package = installed()
    for file in sorted(package.files or (), key=str):
        name = "/".join(file.parts[1:])
        if file.parts[0].endswith(".dist-info") and name not in _LOCAL_METADATA:
            yield name, Path(str(package.locate_file(file))).read_bytes()
    yield "WHEEL", _WHEEL.encode()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, whose rights these are
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)


def _checksum(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
