"""The live view shows what each slot does, how fast, and what it holds."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from benchfleet.cli.live import View
from benchfleet.cli.telling import held, speed
from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.runner.progress import Notice, Progress, Running

GB = 10**9


def running(*gpus: GpuReading, ram: int | None = None, generated: int = 0) -> Running:
    now = time.monotonic()
    slot = Running(slot="s-1", devices="gpu:0")
    slot.take("tiny/dense/recall_512", done=3, now=now - 20)
    slot.enter("benchmark", now - 10)
    slot.total, slot.generated = 8, generated
    slot.reading = Reading(at=1.0, ram=ram, gpus=gpus)
    return slot


def test_tokens_a_second_and_memory_stand_beside_each_slot() -> None:
    gpu = GpuReading(index=0, memory=31_200_000_000, total=80 * GB)
    progress = Progress(total=8, slots={"s-1": running(gpu, generated=4120)})
    view = View("study")
    view(Notice(kind="run_started"), progress)
    console = Console(file=io.StringIO(), width=120)
    console.print(view.draw())
    (line,) = [
        line
        for line in console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        if "recall_512" in line
    ]
    assert "3/8" in line
    assert line.rstrip().endswith("31.2/80 GB")
    assert " tok/s " in line


@pytest.mark.parametrize("width", [40, 60, 80])
def test_on_a_narrow_terminal_names_are_cut_and_numbers_are_whole(width: int) -> None:
    slot = running(GpuReading(index=0, memory=31_200_000_000, total=80 * GB), generated=4120)
    slot.cell = "a-model-with-a-long-name/streaming-1024/longbench_narrativeqa@f7419d6f"
    view = View("study")
    view(Notice(kind="run_started"), Progress(total=8, slots={"s-1": slot}))
    console = Console(file=io.StringIO(), width=width)
    console.print(view.draw())
    line = console.file.getvalue().splitlines()[1]  # type: ignore[attr-defined]
    assert len(line) <= width
    assert line.startswith("  gpu:0  a-model-with-")
    assert " 3/8 " in line
    assert ("31.2/80 GB" in line) == (width == 80)


@pytest.mark.parametrize(
    ("gpus", "ram", "told"),
    [
        ((), 1_440_000_000, "1.4 GB RAM"),
        ((), None, ""),
        ((GpuReading(index=0),), 2 * GB, "2.0 GB RAM"),
        (
            (
                GpuReading(index=0, memory=40 * GB, total=80 * GB),
                GpuReading(index=1, memory=20 * GB, total=24 * GB),
            ),
            GB,
            "20.0/24 GB",
        ),
    ],
)
def test_memory_is_that_of_the_fullest_gpu_or_else_ram(
    gpus: tuple[GpuReading, ...], ram: int | None, told: str
) -> None:
    assert held(running(*gpus, ram=ram)) == told


def test_a_slot_at_rest_shows_neither() -> None:
    slot = running(ram=GB, generated=7)
    slot.rest()
    assert (held(slot), speed(slot, time.monotonic())) == ("", "")
    assert speed(running(), time.monotonic()) == ""
    assert speed(running(generated=5), running().asked_since + 10) != ""
