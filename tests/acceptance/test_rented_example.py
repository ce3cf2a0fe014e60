"""The guide of rented machines, run as written with the simulated provider of its example."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from guide_runner import ROOT, guide_in
from rented_machines import need_curl
from sshd import need_sshd

from .conftest import User


@pytest.mark.timeout(600)
def test_the_guide_ends_with_the_bill_of_machines_that_are_gone(tmp_path: Path) -> None:
    need_curl()
    need_sshd()
    with guide_in(tmp_path) as guide:
        guide.run(ROOT / "docs/guides/rented-gpus.md")
        rows = User(tmp_path / "examples/rented").json("manifest", "study.yaml")["manifest"]
        assert {row["status"] for row in rows} == {"success"}
    printed = guide.printed("second terminal")
    assert re.search(r"^- instance \d+: destroyed$", printed, re.MULTILINE)
    bill = re.search(r"^the bill: (0\.\d+) USD$", printed, re.MULTILINE)
    assert bill
    assert bill[1] == f"{round(sum(row['total_cost'] for row in rows), 6):.4f}"


def await_that(holds: Callable[[], bool]) -> None:
    """Wait for what must come."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.timeout(600)
def test_a_provider_that_was_killed_comes_back_at_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_curl()
    need_sshd()
    monkeypatch.setenv("VAST_API_KEY", "key")
    folder = shutil.copytree(
        ROOT / "examples/rented", tmp_path / "rented", ignore=shutil.ignore_patterns("*_results")
    )
    user, inventory, log = User(folder), folder / "machines.yaml", folder / "cloud.log"
    words = ["run", "study.yaml", "--machines", inventory.name, "--rent", "--yes"]

    def cloud() -> subprocess.Popen[bytes]:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "cloud.py"], cwd=folder, stdout=output, stderr=output
            )
        await_that(lambda: b"rents there" in log.read_bytes())
        return process

    first = cloud()
    try:
        address = inventory.read_text()
        second = subprocess.run([sys.executable, "cloud.py"], cwd=folder, capture_output=True)
        assert second.returncode == 1
        assert b"Does cloud.py run already?" in second.stderr
        run = user.start(*words)
        await_that(lambda: b"+ instance" in log.read_bytes())
    finally:
        first.kill()
        first.wait()
    run.kill()
    run.communicate()
    again = cloud()
    try:
        assert inventory.read_text() == address
        user.run(*words)
    finally:
        again.terminate()
        again.wait()
    assert b"- instance" in log.read_bytes()
