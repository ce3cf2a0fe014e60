"""The stages from an address to a host, on a real sshd: login, GPU, timer, installation."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.rent import RentEntry
from benchfleet.engines.openssh import connections
from benchfleet.engines.ssh_command import ask
from benchfleet.machines.standalone_python import ARCHIVE
from benchfleet.rentals import prepare
from benchfleet.rentals.prepare import Preparation, PrepareFailed, RentedSsh
from benchfleet.rentals.stage_limits import stage_limits
from python_archive import make_archive
from sshd import Sshd

GOOD = "NVIDIA GeForce RTX 4090, 24564, 12, 560.35.03, GPU-1234"
ENTRY = RentEntry(name="r4090", gpu="RTX 4090", needs_dead_man=False, python=sys.executable)


@pytest.fixture
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A host that would find programs of its own in a folder ``bin`` first."""
    folder = tmp_path_factory.mktemp("host")
    host = Sshd(folder, path=f"{folder}/bin:/usr/local/bin:/usr/bin:/bin")
    (folder / "bin").mkdir()
    host.start()
    yield host
    host.kill()


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[RentedSsh]:
    with connections(tmp_path / "known_hosts") as shared:
        yield RentedSsh(known_hosts=shared.known_hosts, sockets=shared.sockets)


def program(sshd: Sshd, name: str, script: str) -> None:
    """A program of the host."""
    file = sshd.folder / "bin" / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def preparation(sshd: Sshd, ssh: RentedSsh, entry: RentEntry = ENTRY, **host: Any) -> Preparation:
    return Preparation(
        host=sshd.host("r4090-aaaaaaaa", python=entry.python, **host),
        entry=entry,
        limits=stage_limits(entry.image),
        ssh=ssh,
        vram=24 << 30,
        stopping=threading.Event(),
    )


def test_a_machine_with_the_gpu_that_was_offered_is_a_host(sshd: Sshd, ssh: RentedSsh) -> None:
    program(sshd, "nvidia-smi", f"echo '{GOOD}'")
    stages = preparation(sshd, ssh)
    assert stages.run().python == sys.executable
    assert stages.facts["driver"] == "560.35.03"
    assert stages.facts["gpus"] == ["GPU-1234"]
    assert stages.facts["kernel"].startswith("Linux ")


@pytest.mark.parametrize(
    ("output", "kind", "message"),
    [
        ("NVIDIA GeForce RTX 3090, 24576, 0, 1, G", "wrong_hardware", "it has NVIDIA GeForce RTX"),
        (
            "NVIDIA GeForce RTX 4090, 12000, 0, 1, G",
            "wrong_hardware",
            "11.7 GiB, 24.0 were offered",
        ),
        (f"{GOOD}\n{GOOD}", "wrong_hardware", "not 1 × RTX 4090"),
        ("NVIDIA GeForce RTX 4090, 24564, 9000, 1, G", "wrong_hardware", "others use 9000 MiB"),
        ("", "wrong_hardware", "it has no GPU"),
        ("Failed to initialize NVML", "no_driver", "nvidia-smi"),
    ],
)
def test_a_machine_with_another_gpu_is_refused_by_name(
    sshd: Sshd, ssh: RentedSsh, output: str, kind: str, message: str
) -> None:
    program(sshd, "nvidia-smi", f"echo '{output}'")
    with pytest.raises(PrepareFailed, match=message) as error:
        preparation(sshd, ssh).run()
    assert (error.value.stage, error.value.kind) == ("hardware", kind)


def test_a_machine_without_a_driver_is_no_fault_of_the_machine(sshd: Sshd, ssh: RentedSsh) -> None:
    program(sshd, "nvidia-smi", "echo 'Driver/library version mismatch' >&2; exit 18")
    with pytest.raises(PrepareFailed, match="version mismatch") as error:
        preparation(sshd, ssh).run()
    assert (error.value.stage, error.value.kind) == ("hardware", "no_driver")


def test_a_timer_that_is_never_armed_ends_the_preparation(
    sshd: Sshd, ssh: RentedSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(sshd, "nvidia-smi", f"echo '{GOOD}'")
    monkeypatch.setattr(prepare, "_PAUSE_S", 0.05)
    entry = dataclasses.replace(ENTRY, needs_dead_man=True)
    stages = preparation(sshd, ssh, entry)
    short = dataclasses.replace(stages.limits, dead_man=0.2)
    with pytest.raises(PrepareFailed, match="not armed") as error:
        dataclasses.replace(stages, limits=short).run()
    assert error.value.stage == "dead_man"


def test_another_host_key_ends_it_at_once(sshd: Sshd, ssh: RentedSsh) -> None:
    program(sshd, "nvidia-smi", f"echo '{GOOD}'")
    preparation(sshd, ssh).run()
    sshd.kill()
    sshd.new_key("host_key")
    sshd.start()
    with pytest.raises(PrepareFailed, match="host key changed") as error:
        preparation(sshd, dataclasses.replace(ssh, sockets=ssh.sockets.parent)).run()
    assert error.value.stage == "ssh_wait"


class Repairing(threading.Event):
    """Repairs something between two tries."""

    def __init__(self, repair: Callable[[], object]) -> None:
        super().__init__()
        self._repair = repair

    def wait(self, timeout: float | None = None) -> bool:
        self._repair()
        return False


def without_python(sshd: Sshd) -> None:
    """Have the host find no Python."""
    for name in ("python3", *(f"python3.{minor}" for minor in range(10, 15))):
        program(sshd, name, "exit 127")


def test_benchfleet_is_installed_without_python_and_at_first_without_an_index(
    sshd: Sshd, ssh: RentedSsh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python is sent. The second try installs; the interpreter that results runs slots."""
    program(sshd, "nvidia-smi", f"echo '{GOOD}'")
    without_python(sshd)
    monkeypatch.setenv(ARCHIVE, str(make_archive(tmp_path / "cpython-own.tar.gz")))
    entry = dataclasses.replace(ENTRY, python="")
    (sshd.folder / "home" / ".config" / "pip").mkdir(parents=True)
    pip = sshd.folder / "home" / ".config" / "pip" / "pip.conf"
    pip.write_text("[global]\nindex-url = http://127.0.0.1:9/simple\nretries = 0\n")
    stages = preparation(sshd, ssh, entry, folder=str(sshd.folder / "benchfleet"))
    repairing = Repairing(lambda: pip.unlink())
    host = dataclasses.replace(stages, stopping=repairing).run()
    assert not pip.exists()  # it was repaired once, so one try had failed
    made = ask(ssh, host, [host.python, "-c", "import benchfleet; print(benchfleet.__file__)"])
    assert str(sshd.folder / "benchfleet" / "envs") in made.out, made.err
    base = ask(ssh, host, [host.python, "-c", "import sys; print(sys.base_prefix)"])
    assert base.out.strip() == str(sshd.folder / "benchfleet" / "python" / "cpython-own")


def test_a_machine_that_can_have_no_python_is_refused_by_name(
    sshd: Sshd, ssh: RentedSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(sshd, "nvidia-smi", f"echo '{GOOD}'")
    without_python(sshd)
    monkeypatch.setenv(ARCHIVE, "no/such.tar.gz")
    monkeypatch.setattr(prepare, "_PAUSE_S", 0.05)
    entry = dataclasses.replace(ENTRY, python="")
    with pytest.raises(
        PrepareFailed, match=r"no Python .* \(one cannot be sent: .* correct it"
    ) as error:
        preparation(sshd, ssh, entry, folder=str(sshd.folder / "benchfleet")).run()
    assert error.value.stage == "bootstrap"
