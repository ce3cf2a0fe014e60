"""Slots get fewer where memory ran out and more where there is room, with real processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchfleet.cli.main import main
from benchfleet.runner.resources import autoscale, autoscaler

from .conftest import MOCK, User, well

# Three at a time take more than each may; two do not. The first wait until three are there.
ALLOCATOR = """\
import json, os, pathlib, time
here = pathlib.Path({folder!r})
own, met = here / str(os.getpid()), here / "met"
def crowd():
    return sum(os.path.exists(f"/proc/{{file.name}}") for file in here.iterdir())
own.touch()
try:
    end = time.monotonic() + 60
    while not met.exists() and crowd() < 3 and time.monotonic() < end:
        time.sleep(0.01)
    if crowd() > 2:
        met.touch()
        held = b"x" * (6 * 10**8)
        time.sleep(60)
    time.sleep(1)  # who was beside it is still there when it is ended
finally:
    own.unlink()
print(json.dumps({{"score": 1.0}}))
"""


def test_slots_get_fewer_where_cells_ran_out_of_memory_beside_each_other(user: User) -> None:
    folder = user.folder / "crowd"
    folder.mkdir()
    (user.folder / "take.py").write_text(ALLOCATOR.format(folder=str(folder)))
    take = f"{{command: {{name: take, argv: [{sys.executable}, take.py], files: [take.py]}}}}"
    user.write(
        MOCK.replace("mock_benchmark", take) + "defaults: {limits: {ram: 300MB}, repeats: 4}\n"
    )
    done = user.run("run", "study.yaml", "--cpu-slots", "3")
    assert "cpu: 2 slots at a time instead of 3: memory ran out with 3" in done.stdout
    assert "over its limit of 300 MB" in " ".join(done.stdout.split())
    assert len(user.published()) == 8


def test_slots_on_a_gpu_get_more_where_it_has_room(
    user: User,
    gpus: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gpus(well(0, utilisation=20))
    monkeypatch.setattr(autoscale, "SETTLE_S", 0.0)  # half a minute is long for a test
    monkeypatch.setattr(autoscaler, "MEASURE_EVERY_S", 0.5)
    monkeypatch.chdir(user.folder)
    slow = "{_hostile: {samples: 20, seconds: 0.1}}"
    user.write(
        MOCK.replace("mock_benchmark", slow) + "slots_per_gpu: auto\ndefaults: {repeats: 2}\n"
    )
    assert main(["run", "study.yaml", "--max-concurrent-runs", "2"]) == 0
    output = capsys.readouterr().out
    assert "gpu:0: 2 slots at a time instead of 1: 79.0 of 80.0 GB are free" in output


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--cpu-slots", "0"], "invalid count '0': use a whole number from 1"),
        (["--slots-per-gpu", "many"], "invalid count 'many': use a whole number from 1, or auto"),
        (["--cpu-slots", "2", "--slots-per-gpu", "2"], "needs GPUs, but the run uses CPU slots"),
    ],
)
def test_a_number_of_slots_that_is_none_is_reported(
    user: User, words: list[str], output: str
) -> None:
    user.write(MOCK)
    assert output in user.run("run", "study.yaml", *words, code=2).stderr


@pytest.mark.parametrize(
    ("more", "slots"),
    [
        ("slots_per_gpu: 3", 6),
        ("{slots_per_gpu: 3, max_concurrent_runs: 4}", 4),
        ("slots_per_gpu: auto", 16),
        ("max_concurrent_runs: 3", 3),
    ],
)
def test_gpus_are_shared_by_as_many_slots_as_requested(
    user: User, gpus: Callable[..., None], more: str, slots: int
) -> None:
    gpus(well(0), well(1))
    user.write(MOCK + more.strip("{}").replace(", ", "\n") + "\n")
    assert user.json("plan", "study.yaml")["machine"]["slots"] == slots


def test_a_campaign_says_auto_too_and_what_is_neither_is_a_mistake(user: User) -> None:
    user.write(MOCK + "cpu_slots: auto\n")
    plan = user.json("plan", "study.yaml")
    assert plan["machine"]["slots"] >= 1
    user.write(MOCK + "cpu_slots: some\n")
    output = user.run("plan", "study.yaml", code=2).stderr
    assert "a whole number, 1 or more, or auto" in output
    assert Path(user.folder, "benchmark_results").exists() is False
