"""GPUs as a real driver reports them, and as a slot looks at them before it starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from benchfleet.domain.gpu import GpuState
from benchfleet.machines.nvml import open_nvml
from benchfleet.slot.gpu_checks import Rules, check_gpus, run_trial, unfit

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU in sight"),
]
HOLDER = "import torch; held = torch.zeros(2**30, device='cuda'); print(flush=True); input()"


def first() -> GpuState:
    with open_nvml() as nvml:
        return nvml.gpus()[0]


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """Somebody else's process with 4 GiB of the first GPU."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_real_driver_tells_what_a_gpu_is_and_how_it_is() -> None:
    with open_nvml() as nvml:
        assert nvml.driver()
    gpu = first()
    assert gpu.name
    assert gpu.uuid.startswith("GPU-")
    assert 0 < gpu.free <= gpu.memory
    assert gpu.fault == ""
    assert gpu.temperature is None or 0 < gpu.temperature < 120


def test_what_others_hold_makes_a_gpu_busy(holder: subprocess.Popen[str]) -> None:
    found = unfit([first()], Rules(gpus=(0,)))
    assert found is not None
    assert found.busy
    assert unfit([first()], Rules(gpus=(0,), share=True)) is None
    all_of_it = Rules(gpus=(0,), share=True, memory=first().memory - 2**30)
    found = unfit([first()], all_of_it)
    assert found is not None
    assert "are needed" in found.reason


def test_a_gpu_that_works_passes_its_trial() -> None:
    assert run_trial() == ""
    assert check_gpus(Rules(gpus=(0,), share=True, trial=True)) is None
