"""NVML's answers become states, whatever a GPU or a driver does not tell."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from benchfleet.domain.gpu import GpuProcess, GpuState
from benchfleet.errors import DeviceError, MissingExtra, NoGpu
from benchfleet.machines import nvml as module
from benchfleet.machines.nvml import open_nvml

FREE_PID = 2**22 + 1  # above what Linux gives out


class Refused(Exception):
    """What the binding raises."""

    def __init__(self, text: str = "Not Supported", value: int = 3) -> None:
        super().__init__(text)
        self.value = value


class Binding(SimpleNamespace):
    """The driver's binding with two GPUs; what is not answered here is not supported."""

    NVMLError = Refused
    NVML_ERROR_LIBRARY_NOT_FOUND, NVML_ERROR_DRIVER_NOT_LOADED = 12, 9
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, NVML_TEMPERATURE_GPU = 1, 0, 0

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlSystemGetDriverVersion": "550.54.15",
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": "a handle",
            "nvmlDeviceGetName": "H100",
            "nvmlDeviceGetUUID": "GPU-1",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80, free=30),
            "nvmlDeviceGetComputeRunningProcesses": [
                SimpleNamespace(pid=FREE_PID, usedGpuMemory=None)
            ],
            "nvmlDeviceGetPowerUsage": 71_500,
            "nvmlDeviceGetTotalEccErrors": 0,
        }
        if name not in answers:
            raise_refused: Any = refuse()
            return raise_refused
        return lambda *_: answers[name]


def refuse(text: str = "Not Supported", value: int = 3) -> Any:
    def refused(*_: Any) -> None:
        raise Refused(text, value)

    return refused


@pytest.fixture
def binding(monkeypatch: pytest.MonkeyPatch) -> Binding:
    monkeypatch.delenv(module.RECORDING, raising=False)
    made = Binding()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def test_what_a_gpu_tells_is_taken_and_the_rest_is_not_known(binding: Binding) -> None:
    with open_nvml() as nvml:
        assert nvml.driver() == "550.54.15"
        first, second = nvml.gpus()
    assert first == GpuState(
        index=0,
        name="H100",
        uuid="GPU-1",
        memory=80,
        free=30,
        processes=(GpuProcess(pid=FREE_PID),),
        uncorrected=0,
        power=71.5,
    )
    assert (second.index, second.fault) == (1, "")


def test_what_changes_is_asked_of_the_gpus_that_are_watched_alone(binding: Binding) -> None:
    with open_nvml() as nvml:
        assert nvml.watched([0]) == nvml.watched([0])
        (first,) = nvml.watched([0])
    assert first == GpuState(
        index=0, memory=80, free=30, processes=(GpuProcess(pid=FREE_PID),), power=71.5
    )


def test_a_watched_gpu_that_is_lost_says_so(binding: Binding) -> None:
    binding.nvmlDeviceGetMemoryInfo = refuse("GPU is lost", 15)
    with open_nvml() as nvml:
        assert nvml.watched([1]) == (GpuState(index=1, lost="GPU is lost"),)


def test_a_gpu_that_is_lost_is_a_state_and_hides_no_other(binding: Binding) -> None:
    def handle(index: int) -> str:
        if index == 0:
            raise Refused("GPU is lost", 15)
        return "a handle"

    binding.nvmlDeviceGetHandleByIndex = handle
    with open_nvml() as nvml:
        lost, well = nvml.gpus()
    assert (lost.lost, well.lost) == ("GPU is lost", "")
    assert "does not answer (NVML: GPU is lost)" in lost.fault


@pytest.mark.parametrize(("value", "kind"), [(12, NoGpu), (9, NoGpu), (18, DeviceError)])
def test_a_machine_without_gpus_is_distinguished_from_a_driver_that_fails(
    binding: Binding, value: int, kind: type[DeviceError]
) -> None:
    binding.nvmlInit = refuse("Not Found", value)
    with pytest.raises(DeviceError, match="Not Found") as raised, open_nvml():
        pass
    assert type(raised.value) is kind


def test_gpus_that_cannot_be_counted_are_an_error(binding: Binding) -> None:
    binding.nvmlDeviceGetCount = refuse("Unknown Error")
    with open_nvml() as nvml, pytest.raises(DeviceError, match="cannot be counted"):
        nvml.gpus()


def test_an_interpreter_without_the_binding_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(module.RECORDING, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(MissingExtra, match="pip install nvidia-ml-py"), open_nvml():
        pass
