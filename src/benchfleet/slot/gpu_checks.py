"""Checks a slot's GPUs before the slot says hello."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.gpu import GpuProcess, GpuState
from benchfleet.domain.humanize import examples, gigabytes
from benchfleet.errors import DeviceError, MissingExtra
from benchfleet.machines.nvml import Nvml, open_nvml

MEMORY_GRACE_S = 5.0  # for the memory of a slot that ended to come back
DRIVER_BYTES, DRIVER_SHARE = 2 * 2**30, 0.05  # of its memory a driver itself may hold
DRIVER_PROCESS = "nvidia-cuda-mps"
TRIAL_LIMIT_S = 300.0  # the first import of torch from a slow disk takes minutes
TRIAL_PROGRAM = """
import torch
for index in range(torch.cuda.device_count()):
    numbers = torch.randint(-8, 8, (256, 256), generator=torch.Generator().manual_seed(index))
    numbers = numbers.to(torch.float32)
    found = (numbers.to(f"cuda:{index}") @ numbers.to(f"cuda:{index}").T).cpu()
    if not torch.equal(found, numbers @ numbers.T):
        raise SystemExit(f"the GPU at place {index} multiplies wrongly")
if not torch.cuda.device_count():
    raise SystemExit("torch sees no GPU")
"""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the GPUs of a slot must fulfil."""

    gpus: tuple[int, ...]
    share: bool = False  # other people's processes on them are allowed
    trial: bool = False  # compute something on them first
    memory: int = 0  # bytes that must be free on each; 0: as much as nobody else takes
    run: str = ""  # how the names of our run's slots begin
    neighbours: int = 0  # slots of this run that are on them already


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """Why GPUs cannot be used."""

    reason: str
    gpus: tuple[int, ...]
    busy: bool = False  # they are well: somebody else uses them
    ending: bool = False  # a slot that ends just now may be all that uses them


def parse_rules(opening: Mapping[str, Any]) -> Rules:
    """The rules in a slot's first frame."""
    gpus = tuple(int(part) for part in opening["gpus"].split(","))
    return Rules(gpus=gpus, run=opening["slot"].rpartition("-")[0], **opening["gpu_checks"])


def check_gpus(rules: Rules, trial: Callable[[], str] | None = None) -> Unfit | None:
    """Check the GPUs of this machine; wait a little for memory that is about to come back."""
    try:
        with open_nvml() as nvml:
            problem = wait_until_fit(nvml, rules)
    except MissingExtra as error:
        print(f"GPUs are not checked: {error}", file=sys.stderr)
        problem = None
    except DeviceError as error:
        problem = Unfit(reason=str(error), gpus=rules.gpus)
    if problem is None and rules.trial and (why := (trial or run_trial)()):
        return Unfit(reason=f"its trial failed: {why}", gpus=rules.gpus)
    return problem


def wait_until_fit(
    nvml: Nvml,
    rules: Rules,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Unfit | None:
    """Why the GPUs are unfit, after the memory of an earlier slot had time to come back."""
    until = now() + MEMORY_GRACE_S
    while True:
        problem = unfit(nvml.gpus(), rules)
        if problem is None or not problem.ending or now() >= until:
            return problem
        sleep(0.5)


def unfit(seen: Iterable[GpuState], rules: Rules) -> Unfit | None:
    """The first reason why a GPU of the slot cannot be used now."""
    gpus = {gpu.index: gpu for gpu in seen}
    for index in rules.gpus:
        if index not in gpus:
            return Unfit(reason=f"gpu:{index} is not here", gpus=(index,))
        if fault := gpus[index].fault:
            return Unfit(reason=f"gpu:{index}: {fault}", gpus=(index,))
    for index in rules.gpus:
        if why := _busy_reason(gpus[index], rules):
            ending = all(one.slot for one in gpus[index].processes)
            reason = f"gpu:{index} {why}"
            return Unfit(reason=reason, gpus=(index,), busy=True, ending=ending)
    return None


def _busy_reason(gpu: GpuState, rules: Rules) -> str:
    """Why there is no room on a GPU that is well; ``""`` where there is."""
    strangers = [one for one in gpu.processes if _is_stranger(one, rules)]
    if strangers and not rules.share:
        return f"is in use: {examples(map(str, strangers))}"
    if rules.memory and gpu.free < rules.memory:
        free, whole, least = map(gigabytes, (gpu.free, gpu.memory, rules.memory))
        return f"has {free} free of {whole}, and {least} are needed"
    ours = len(strangers) < len(gpu.processes) or rules.neighbours
    if rules.share or rules.memory or ours or gpu.mig:
        return ""
    used = gpu.memory - gpu.free
    if used > max(DRIVER_BYTES, DRIVER_SHARE * gpu.memory):
        message = f"has {gigabytes(used)} of {gigabytes(gpu.memory)} taken"
        return f"{message} by processes that the driver does not list"
    return ""


def _is_stranger(one: GpuProcess, rules: Rules) -> bool:
    """Whether a process belongs neither to this run nor to the driver. Where the driver reports the
    pids of another container, processes of our other slots look like those of strangers."""
    if one.name.startswith(DRIVER_PROCESS):
        return False
    if rules.run and one.slot.rpartition("-")[0] == rules.run:
        return False
    return bool(one.name) or not rules.neighbours


def run_trial() -> str:
    """Compute on the GPUs in a process of its own; its error, or ``""``."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", TRIAL_PROGRAM],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRIAL_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {TRIAL_LIMIT_S:g} s"
    if done.returncode == 0:
        return ""
    last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
    return last.strip()[:300] or f"exit code {done.returncode}"
