"""NVML as benchfleet asks it: what each GPU is, how it is, and who is on it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import Any, Protocol

from benchfleet.domain.gpu import GpuProcess, GpuState
from benchfleet.errors import DeviceError, MissingExtra, NoGpu
from benchfleet.machines.recorded_gpus import RecordedGpus

RECORDING = "BENCHFLEET_NVML_RECORDING"  # a file that answers instead of the driver


class Nvml(Protocol):
    """What is asked of NVML. A GPU that is lost is a state like any other."""

    def driver(self) -> str:
        """The driver's version; ``""`` where it does not tell."""
        ...

    def cuda(self) -> str:
        """The newest CUDA that the driver speaks, such as ``12.4``; ``""`` where it tells none."""
        ...

    def gpus(self) -> tuple[GpuState, ...]:
        """Every GPU, in NVML's order. Raises DeviceError."""
        ...

    def watched(self, indices: Collection[int]) -> tuple[GpuState, ...]:
        """What changes of these from moment to moment: memory, utilisation, power, temperature and
        the numbers of the processes; cheap enough to be asked every second."""
        ...


@contextlib.contextmanager
def open_nvml() -> Iterator[Nvml]:
    """NVML, for as long as it is needed.

    Raises NoGpu where there is no GPU, DeviceError where NVML cannot be asked, and MissingExtra
    where this interpreter has no binding to it.
    """
    if file := os.environ.get(RECORDING):
        yield RecordedGpus(file)
        return
    try:
        import pynvml
    except ImportError:
        raise MissingExtra(
            "GPUs cannot be asked how they are: this interpreter lacks nvidia-ml-py; "
            "pip install nvidia-ml-py"
        ) from None
    absent = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        kind = NoGpu if error.value in absent else DeviceError
        raise kind(f"this machine has no NVIDIA GPU that can be used (NVML: {error})") from None
    try:
        yield _Driver(pynvml)
    finally:
        pynvml.nvmlShutdown()


class _Driver:
    """The NVML of this machine's driver, through its own binding."""

    def __init__(self, binding: Any) -> None:
        self._nvml = binding
        self._handles: dict[int, Any] = {}  # of GPUs that are watched

    def driver(self) -> str:
        return str(self._query("nvmlSystemGetDriverVersion") or "")

    def cuda(self) -> str:
        number = self._query("nvmlSystemGetCudaDriverVersion") or 0  # 12040
        return f"{number // 1000}.{number % 1000 // 10}" if number else ""

    def gpus(self) -> tuple[GpuState, ...]:
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise DeviceError(f"the GPUs cannot be counted (NVML: {error})") from None
        return tuple(self._gpu(index) for index in range(count))

    def _gpu(self, index: int) -> GpuState:
        nvml = self._nvml
        try:
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
            name, uuid = str(nvml.nvmlDeviceGetName(gpu)), str(nvml.nvmlDeviceGetUUID(gpu))
        except nvml.NVMLError as error:
            return GpuState(index=index, lost=str(error))
        volatile = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        mig = self._query("nvmlDeviceGetMigMode", gpu)  # now, and after the next reset
        running = self._query("nvmlDeviceGetComputeRunningProcesses", gpu) or ()
        return GpuState(
            index=index,
            name=name,
            uuid=uuid,
            memory=int(memory.total),
            free=int(memory.free),
            processes=tuple(process(one.pid, one.usedGpuMemory or 0) for one in running),
            mig=bool(mig and mig[0]),
            uncorrected=self._query("nvmlDeviceGetTotalEccErrors", gpu, *volatile),
            **self._now(gpu),
        )

    def watched(self, indices: Collection[int]) -> tuple[GpuState, ...]:
        return tuple(map(self._watched, indices))

    def _watched(self, index: int) -> GpuState:
        nvml = self._nvml
        try:
            if index not in self._handles:
                self._handles[index] = nvml.nvmlDeviceGetHandleByIndex(index)
            gpu = self._handles[index]
            memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
        except nvml.NVMLError as error:
            return GpuState(index=index, lost=str(error))
        running = self._query("nvmlDeviceGetComputeRunningProcesses", gpu) or ()
        return GpuState(
            index=index,
            memory=int(memory.total),
            free=int(memory.free),
            processes=tuple(GpuProcess(pid=p.pid, memory=p.usedGpuMemory or 0) for p in running),
            **self._now(gpu),
        )

    def _now(self, gpu: Any) -> dict[str, Any]:
        """How hot and how busy it is."""
        power = self._query("nvmlDeviceGetPowerUsage", gpu)  # mW
        rates = self._query("nvmlDeviceGetUtilizationRates", gpu)
        sensor = self._nvml.NVML_TEMPERATURE_GPU
        return {
            "temperature": self._query("nvmlDeviceGetTemperature", gpu, sensor),
            "utilisation": None if rates is None else int(rates.gpu),
            "power": None if power is None else power / 1000,
        }

    def _query(self, question: str, *about: Any) -> Any:
        """The answer; None where this GPU or driver has none."""
        try:
            return getattr(self._nvml, question)(*about)
        except self._nvml.NVMLError:
            return None


def process(pid: int, memory: int = 0) -> GpuProcess:
    """A process by its number, with what this machine shows of it."""
    import psutil

    try:
        running = psutil.Process(pid)
        name, user = running.name(), running.username()
    except psutil.Error:
        return GpuProcess(pid=pid, memory=memory)
    try:
        slot = running.environ().get("BENCHFLEET_SLOT", "")
    except (psutil.Error, OSError):  # another user's
        slot = ""
    return GpuProcess(pid=pid, name=name, user=user, memory=memory, slot=slot)


def main() -> None:
    """Print a recording of this machine; see `benchfleet.machines.recorded_gpus`."""
    with open_nvml() as nvml:
        recording = {
            "driver": nvml.driver(),
            "cuda": nvml.cuda(),
            "gpus": [asdict(gpu) for gpu in nvml.gpus()],
        }
    print(json.dumps(recording, indent=2))


if __name__ == "__main__":
    main()
