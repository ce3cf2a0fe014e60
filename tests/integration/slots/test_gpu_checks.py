"""GPUs that are looked at before a slot starts on them, with real slots."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.gpu import GpuState
from benchfleet.domain.resource import GpuChecks
from benchfleet.engines.base import SlotLost, SlotReady
from benchfleet.engines.local import LocalEngine
from benchfleet.machines.nvml import RECORDING, open_nvml
from benchfleet.machines.recorded_gpus import RecordedGpus

from .places import Place

WELL = {"index": 0, "name": "H100", "uuid": "GPU-0", "memory": 80 * 10**9, "free": 79 * 10**9}
IN_USE = {**WELL, "processes": [{"pid": 7, "name": "python3", "user": "ada"}]}


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes what NVML says in this test."""
    file = tmp_path / "nvml.json"
    monkeypatch.setenv(RECORDING, str(file))

    def write(*gpus: dict[str, Any], **more: Any) -> None:
        file.write_text(json.dumps({"driver": "550.54.15", "gpus": gpus, **more}))

    return write


def test_a_recording_answers_like_the_driver(recording: Callable[..., None]) -> None:
    theirs = {"pid": 7, "name": "python3", "user": "ada"}
    recording({**WELL, "processes": [theirs]}, {"index": 1, "lost": "GPU is lost"})
    with open_nvml() as nvml:
        assert isinstance(nvml, RecordedGpus)
        assert nvml.driver() == "550.54.15"
        used, lost = nvml.gpus()
    assert str(used.processes[0]) == "ada: python3 (7)"
    assert lost == GpuState(index=1, lost="GPU is lost")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    places: list[Place] = []

    def make(**checks: bool) -> Place:
        options = {"checks": GpuChecks(**checks), "named": True}
        places.append(Place(lambda post: LocalEngine(post, **options), tmp_path, ""))  # type: ignore[arg-type]
        return places[-1]

    yield make
    for place in places:
        place.engine.shutdown()


def test_a_slot_on_a_gpu_that_is_well_starts(
    local: Callable[..., Place], recording: Callable[..., None]
) -> None:
    recording(WELL)
    place = local()
    place.open(gpus=(0,))
    assert place.until(SlotReady).hello["gpus"] == "0"


@pytest.mark.parametrize(
    ("gpu", "output", "busy"),
    [
        ({"index": 0, "lost": "GPU is lost"}, "does not answer (NVML: GPU is lost)", False),
        ({**WELL, "uncorrected": 4}, "4 uncorrectable ECC errors", False),
        (IN_USE, "gpu:0 is in use: ada: python3 (7)", True),
        ({**WELL, "free": 10**9}, "79.0 GB of 80.0 GB taken", True),
    ],
)
def test_a_slot_on_a_gpu_that_is_unfit_ends_with_the_reason(
    local: Callable[..., Place],
    recording: Callable[..., None],
    gpu: dict[str, Any],
    output: str,
    busy: bool,
) -> None:
    recording(gpu)
    place = local()
    place.open(gpus=(0,))
    lost = place.until(SlotLost)
    assert output in lost.reason
    assert (lost.unfit, lost.busy, lost.expected) == ((0,), busy, False)


def test_a_gpu_that_others_use_is_shared_where_that_was_asked_for(
    local: Callable[..., Place], recording: Callable[..., None]
) -> None:
    recording(IN_USE)
    place = local(share=True)
    place.open(gpus=(0,))
    place.until(SlotReady)


def test_a_trial_that_fails_is_the_reason(
    local: Callable[..., Place], recording: Callable[..., None]
) -> None:
    """There may be no GPU at all behind the recording, or one that passes."""
    import torch

    recording(WELL)
    place = local(trial=True)
    place.open(gpus=(0,))
    if torch.cuda.is_available():
        place.until(SlotReady)
    else:
        lost = place.until(SlotLost)
        assert "its trial failed: torch sees no GPU" in lost.reason
        assert not lost.busy
