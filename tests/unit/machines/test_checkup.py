"""What a machine is reported that it lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchfleet.machines.checkup import Check, folder_check, machine_checks
from benchfleet.machines.nvml import RECORDING


def found(**places: Path) -> dict[str, Check]:
    return {one.what: one for one in machine_checks(**places)}


def test_this_machine_has_what_the_tests_need(tmp_path: Path) -> None:
    checks = found(cgroup=tmp_path)
    assert {one.what for one in checks.values() if one.level == "problem"} == set()
    assert all(bool(one.fix) == (one.level != "ok") for one in checks.values())


def test_the_limits_of_a_container_are_reported(tmp_path: Path) -> None:
    for name, text in (
        ("cpu.max", "50000 100000"),
        ("pids.max", "64"),
        ("memory.max", str(10**9)),
        ("memory.current", str(2 * 10**8)),
        ("memory.stat", "inactive_file 0"),
    ):
        (tmp_path / name).write_text(text)
    checks = found(cgroup=tmp_path)
    assert "the control group allows 0.5" in checks["cores"].finding
    assert checks["cores"].fix.startswith("--cpu-slots 1")
    assert checks["RAM"].finding == "800 MB free of 1.0 GB"
    assert (checks["RAM"].level, checks["processes"].level) == ("warning", "warning")


@pytest.mark.parametrize(
    ("gpu", "level", "output"),
    [
        ({}, "ok", "H100, 80.0 GB free of 80.0 GB, driver 550.1"),
        ({"uncorrected": 3}, "warning", "its memory had 3 uncorrectable ECC errors"),
        (
            {"processes": [{"pid": 7, "user": "ada", "name": "python3", "memory": 0}]},
            "warning",
            "in use by ada: python3 (7)",
        ),
        ({"lost": "GPU is lost"}, "warning", "it does not answer"),
    ],
)
def test_each_gpu_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any], level: str, output: str
) -> None:
    whole = {"index": 0, "name": "H100", "memory": 80 * 10**9, "free": 80 * 10**9, **gpu}
    recording = tmp_path / "nvml.json"
    recording.write_text(json.dumps({"driver": "550.1", "gpus": [whole]}))
    monkeypatch.setenv(RECORDING, str(recording))
    check = found(cgroup=tmp_path)["gpu:0"]
    assert (check.level, output in check.finding) == (level, True)


def test_a_folder_that_cannot_be_made_is_a_problem_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = folder_check("results", tmp_path / "file" / "study", least=0, fix="name another")
    assert (check.level, check.fix) == ("problem", "name another")
    check = folder_check("results", tmp_path / "new" / "study", least=2**60, fix="name another")
    assert (check.level, check.fix) == ("warning", "free space there, or name another")
    assert folder_check("results", tmp_path / "new", least=0, fix="").level == "ok"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
