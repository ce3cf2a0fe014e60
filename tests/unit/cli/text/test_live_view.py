"""The live view shows what each slot does, how fast, and what it holds."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from benchfleet.cli.text.live_view import LiveView
from benchfleet.cli.text.notices import memory_text, speed_text
from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.runner.progress import Eta, Notice, Progress, Running

GB = 10**9


def running(*gpus: GpuReading, ram: int | None = None, generated: int = 0) -> Running:
    now = time.monotonic()
    slot = Running(slot="s-1", devices="gpu:0")
    slot.take("tiny/dense/recall_512", done=3, now=now - 20)
    slot.enter("benchmark", now - 10)
    slot.total, slot.generated = 8, generated
    slot.reading = Reading(at=1.0, ram=ram, gpus=gpus)
    return slot


def drawn(view: LiveView, width: int, height: int = 25) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(view.draw())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_tokens_a_second_and_memory_stand_beside_each_slot() -> None:
    gpu = GpuReading(index=0, memory=31_200_000_000, total=80 * GB)
    progress = Progress(total=8, slots={"s-1": running(gpu, generated=4120)})
    view = LiveView("study")
    view(Notice(kind="run_started"), progress)
    (line,) = [line for line in drawn(view, 120) if "recall_512" in line]
    assert "3/8" in line
    assert line.rstrip().endswith("31.2/80 GB")
    assert " tok/s " in line


@pytest.mark.parametrize("width", [40, 60, 80])
def test_on_a_narrow_terminal_names_are_cut_and_numbers_are_whole(width: int) -> None:
    slot = running(GpuReading(index=0, memory=31_200_000_000, total=80 * GB), generated=4120)
    slot.cell = "a-model-with-a-long-name/streaming-1024/longbench_narrativeqa@f7419d6f"
    view = LiveView("study")
    view(Notice(kind="run_started"), Progress(total=8, slots={"s-1": slot}))
    line = drawn(view, width)[2]
    assert len(line) <= width
    assert line.startswith("  gpu:0  a-model-with-")
    assert " 3/8 " in line
    assert ("31.2/80 GB" in line) == (width == 80)


@pytest.mark.parametrize("width", [40, 60, 200])
def test_no_count_is_lost_on_a_narrow_terminal(width: int) -> None:
    view = LiveView("a-study-of-many-long-names-in-attention")
    progress = Progress(total=8, states={"failed": 2, "success": 3, "running": 2, "pending": 1})
    progress.eta = Eta(seconds=3600, spread=60, at=time.monotonic())
    view(Notice(kind="run_started"), progress)
    lines = drawn(view, width)
    assert max(map(len, lines)) <= width
    counts = "8 cells · 3 done · 2 failed · 2 running"
    shown = " ".join(" ".join(lines).split())
    assert counts in shown
    assert "62 % · ETA 1 h 00 min ± 1 min 00 s" in shown
    assert ("━" in shown) == (width > 40)


@pytest.mark.parametrize("width", [80, 140])
def test_a_bar_as_wide_as_the_terminal_shows_how_far_the_whole_run_is(width: int) -> None:
    progress = Progress(total=4, states={"success": 1, "running": 1, "pending": 2})
    progress.slots["s-1"] = slot = running()
    slot.done, slot.before, slot.total = 4, 4, 8
    view = LiveView("study")
    view(Notice(kind="run_started"), progress)
    line = drawn(view, width)[1]
    assert line.startswith("  ━━━━━━━━━━━━━━")
    assert line.endswith("  37 %")
    assert len(line) == width


def test_what_happened_is_folded_and_no_part_of_a_name_is_left_out() -> None:
    name = "meta-llama_Llama-3.1-8B-Instruct/streaming-with-a-long-window/longbench_narrativeqa"
    view = LiveView("study")
    view(Notice(kind="warning", cell=name, message="it went wrong"), Progress(total=8))
    assert "".join(drawn(view, 40)[2:]) == f"! {name} it went wrong"


@pytest.mark.parametrize("height", [5, 8, 24, 60])
@pytest.mark.parametrize("width", [40, 100])
def test_a_view_is_no_higher_than_its_terminal(width: int, height: int) -> None:
    view, progress = LiveView("study"), Progress(total=64, states={"running": 40, "pending": 24})
    for number in range(40):
        progress.slots[f"s-{number}"] = slot = running()
        slot.devices = f"cpu:{number}"
    for number in range(6):
        view(Notice(kind="warning", cell=f"m{number}/dense/recall", message="it is hot"), progress)
    lines = drawn(view, width, height)
    assert len(lines) < height
    assert lines[-1] == "! m5/dense/recall it is hot"
    assert "64 cells" in " ".join(lines[:2])
    slots = sum(line.startswith("  cpu:") for line in lines)
    assert slots == 40 or f"  … and {40 - slots} more slots" in lines
    assert slots == 40 if height == 60 else slots >= min(10, height - 7)


def test_nothing_is_counted_before_the_ledger_was_asked() -> None:
    assert drawn(LiveView("study"), 80) == ["study   starting"]


def test_a_host_that_is_lost_is_reported_and_stays_on_the_screen() -> None:
    view = LiveView("study")
    lost = Notice(kind="host_lost", message="no route", data={"host": "lab2", "hopeless": False})
    view(lost, Progress(total=8))
    assert [line.plain for line in view.troubles] == ["! host lab2: no route; it is tried again"]
    assert drawn(view, 80)[-1] == "! host lab2: no route; it is tried again"


@pytest.mark.parametrize(
    ("gpus", "ram", "output"),
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
    gpus: tuple[GpuReading, ...], ram: int | None, output: str
) -> None:
    assert memory_text(*running(*gpus, ram=ram).memory) == output


def test_a_slot_at_rest_shows_neither() -> None:
    slot = running(ram=GB, generated=7)
    slot.rest()
    assert (memory_text(*slot.memory), speed_text(slot.tokens_per_second(time.monotonic()))) == (
        "",
        "",
    )
    assert speed_text(running().tokens_per_second(time.monotonic())) == ""
    assert speed_text(running(generated=5).tokens_per_second(running().asked_since + 10)) != ""
