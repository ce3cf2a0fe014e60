"""What is free of the memory of this machine, and of the group that a process is held in."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from benchfleet.machines.free_memory import free_memory
from benchfleet.machines.nvml import RECORDING


def group(folder: Path, *, most: str, used: int, cached: int) -> Path:
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {cached}\n")
    return folder


def test_the_memory_of_the_machine_is_reported_without_a_limit(tmp_path: Path) -> None:
    for folder in (tmp_path, group(tmp_path, most="max", used=7, cached=1)):
        found = free_memory(gpus=False, cgroup=folder)
        assert list(found) == ["cpu"]
        assert found["cpu"].total == psutil.virtual_memory().total
        assert 0 < found["cpu"].free < found["cpu"].total


def test_the_limit_of_a_control_group_counts_less_what_it_would_give_back(tmp_path: Path) -> None:
    held = group(tmp_path, most=str(2**20), used=2**19, cached=1000)
    room = free_memory(gpus=False, cgroup=held)["cpu"]
    assert (room.total, room.free) == (2**20, 2**19 + 1000)


def test_gpus_that_answer_are_reported_and_others_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "nvml.json"
    monkeypatch.setenv(RECORDING, str(file))
    well = {"index": 0, "memory": 80, "free": 30, "utilisation": 40}
    file.write_text(json.dumps({"gpus": [well, {"index": 1, "lost": "GPU is lost"}]}))
    found = free_memory(gpus=True)
    assert set(found) == {"cpu", "gpu:0"}
    assert (found["gpu:0"].total, found["gpu:0"].free, found["gpu:0"].busy) == (80, 30, 0.4)
    file.write_text(json.dumps({"error": "no driver"}))
    assert set(free_memory(gpus=True)) == {"cpu"}
