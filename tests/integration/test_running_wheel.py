"""The wheel that benchfleet makes of itself holds what its build would hold, byte for byte."""

from __future__ import annotations

import csv
import hashlib
import io
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from benchfleet.machines import requirements
from benchfleet.machines.wheel import environment_name, running_wheel

ROOT = Path(__file__).parents[2]


def test_it_holds_the_files_that_the_build_backend_puts_into_a_wheel(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True)
    (built,) = (zipfile.ZipFile(file) for file in tmp_path.glob("*.whl"))
    wheel = running_wheel()
    made = zipfile.ZipFile(io.BytesIO(wheel.data))
    assert (tmp_path / wheel.name).exists()
    names = made.namelist()
    assert sorted(names) == sorted(built.namelist())
    assert any(name.endswith(".sql") for name in names)
    assert "benchfleet/py.typed" in names
    assert all(name.startswith(("benchfleet/", "benchfleet-")) for name in names)
    for name in names:
        if name.startswith("benchfleet/"):
            assert made.read(name) == built.read(name)


def test_its_bytes_and_the_name_of_its_environment_are_always_the_same() -> None:
    ask = "import hashlib; from benchfleet.machines.wheel import *; "
    ask += "print(hashlib.sha256(running_wheel().data).hexdigest(), environment_name())"
    asked = [sys.executable, "-c", ask]
    again = subprocess.run(asked, cwd="/", capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(running_wheel().data).hexdigest()
    assert again.split() == [digest, environment_name()]


def test_its_record_is_true() -> None:
    archive = zipfile.ZipFile(io.BytesIO(running_wheel().data))
    (record,) = (name for name in archive.namelist() if name.endswith("/RECORD"))
    rows = list(csv.reader(archive.read(record).decode().splitlines()))
    assert [name for name, _, _ in rows] == archive.namelist()
    for name, digest, size in rows:
        if name != record:
            checksum = urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).decode()
            assert (digest, int(size)) == (
                f"sha256={checksum.rstrip('=')}",
                len(archive.read(name)),
            )


def test_what_is_needed_is_named_with_and_without_an_extra() -> None:
    plain, full = requirements.requirements(), requirements.requirements("lm-eval")
    assert not any(line.startswith("torch") for line in plain)
    assert {"torch", "lm-eval"} <= {line.partition("<")[0].partition(">")[0] for line in full}
    assert set(plain) < set(full)
    assert not any("extra" in line for line in full)


def test_constraints_are_the_checkouts_or_else_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert requirements.constraints() == (ROOT / "constraints.txt").read_text()
    monkeypatch.setattr(requirements, "PACKAGE", tmp_path / "site-packages" / "benchfleet")
    found = requirements.constraints().splitlines()
    assert any(line.startswith("markdown-it-py==") for line in found)  # what rich needs
    assert all("+" not in line and "==" in line for line in found)
    assert len(found) == len(set(found))
