"""A Python for hosts without one: from the user's archive, the cache, or the network, verified."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from benchfleet.domain.host import Host
from benchfleet.errors import BenchfleetError
from benchfleet.machines import standalone_python as module
from benchfleet.machines.bootstrap import BootstrapFailed, bootstrap
from benchfleet.machines.bootstrap_plan import EnvironmentSpec, Step
from benchfleet.machines.standalone_python import ARCHIVE, standalone_python
from benchfleet.machines.wheel import Wheel

from .test_bootstrap import Said


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A site with the build for x86_64, and with another file as that for aarch64."""
    folder = tmp_path / "site" / module._RELEASE
    folder.mkdir(parents=True)
    middle = f"cpython-{module._VERSION}+{module._RELEASE}"
    for machine in ("x86_64", "aarch64"):
        name = f"{middle}-{machine}-unknown-linux-gnu-install_only_stripped.tar.gz"
        (folder / name).write_bytes(b"an archive")
    digest = hashlib.sha256(b"an archive").hexdigest()
    monkeypatch.setattr(module, "_DIGESTS", {"x86_64": digest, "aarch64": "0" * 64})
    return folder.parent.as_uri()


def test_an_archive_is_downloaded_once(releases: str, tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    file = standalone_python("x86_64", environ, releases=releases)
    assert file.read_bytes() == b"an archive"
    assert standalone_python("x86_64", environ, releases="file:///nowhere") == file


@pytest.mark.parametrize(
    ("machine", "where", "says"),
    [
        ("aarch64", "", "has another digest than 000000000000…; name a .tar.gz in"),
        ("x86_64", "file:///nowhere", "cannot be downloaded"),
        ("riscv64", "", "there is none for riscv64, but for x86_64 and aarch64"),
    ],
)
def test_what_cannot_be_had_is_named_and_leaves_nothing(
    releases: str, tmp_path: Path, machine: str, where: str, says: str
) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    with pytest.raises(BenchfleetError, match=says):
        standalone_python(machine, environ, releases=where or releases)
    assert not [one for one in (tmp_path / "cache").rglob("*") if one.is_file()]


def test_the_archive_of_the_user_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "own.tar.gz"
    with pytest.raises(BenchfleetError, match="which is no file"):
        standalone_python("s390x", {ARCHIVE: str(file)})
    file.write_bytes(b"mine")
    assert standalone_python("s390x", {ARCHIVE: str(file)}) == file


@pytest.mark.parametrize(
    ("system", "says"),
    [("musl\n", "its C library is musl"), ("tar\ngzip\n", "its image lacks tar and gzip")],
)
def test_an_image_that_cannot_take_it_is_refused_by_name(system: str, says: str) -> None:
    def ask(step: Step) -> Said:
        answers = {
            "look for the environment": Said(code=127),
            "look for Python": Said(out="x86_64\n"),
            "look at its system": Said(out=system),
        }
        return answers[step.title]

    never: Callable[..., Path] = lambda machine: pytest.fail("it is not needed")  # noqa: E731
    spec = EnvironmentSpec(wheel=Wheel(name="b.whl", data=b""), python_for=never)
    with pytest.raises(BootstrapFailed, match=says):
        bootstrap(Host(name="lab"), spec, ask=ask, hold=never, tell=print)  # type: ignore[arg-type]
