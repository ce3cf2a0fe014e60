"""GPUs are looked at before a slot takes them."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from benchfleet.domain.gpu import GpuProcess, GpuState
from benchfleet.errors import DeviceError, MissingExtra
from benchfleet.slot import gpu_checks
from benchfleet.slot.gpu_checks import Rules, Unfit, check_gpus, parse_rules, unfit, wait_until_fit

GB = 10**9
FREE = GpuState(index=0, name="H100", memory=80 * GB, free=79 * GB, uncorrected=0)
THEIRS = GpuProcess(pid=7, name="python3", user="ada", memory=20 * GB)
OURS = GpuProcess(pid=8, name="python3", user="me", memory=20 * GB, slot="run1-3")
UNSEEN = GpuProcess(pid=9)
RULES = Rules(gpus=(0,), run="run1")
SHARING = replace(RULES, share=True)
LOST = GpuState(index=0, lost="GPU is lost")
SERVER = replace(THEIRS, name="nvidia-cuda-mps-server")
WITH_ROOM = replace(RULES, memory=40 * GB)
BESIDE = replace(RULES, neighbours=1)


@pytest.mark.parametrize(
    ("gpu", "rules", "output", "busy"),
    [
        (FREE, RULES, "", False),
        (LOST, RULES, "does not answer (NVML: GPU is lost)", False),
        (replace(FREE, uncorrected=2), RULES, "2 uncorrectable ECC errors", False),
        (replace(FREE, uncorrected=None), RULES, "", False),
        (replace(FREE, xids=(79,)), RULES, "Xid 79", False),
        (replace(FREE, index=1), RULES, "gpu:0 is not here", False),
        (replace(FREE, processes=(THEIRS,)), RULES, "is in use: ada: python3 (7)", True),
        (replace(FREE, processes=(THEIRS,)), SHARING, "", False),
        (replace(FREE, processes=(THEIRS,), uncorrected=1), SHARING, "uncorrectable", False),
        (replace(FREE, processes=(UNSEEN,)), RULES, "another container's or user's", True),
        (replace(FREE, processes=(UNSEEN,)), BESIDE, "", False),
        (replace(FREE, processes=(THEIRS,)), BESIDE, "is in use", True),
        (replace(FREE, processes=(OURS,), free=10 * GB), RULES, "", False),
        (replace(FREE, processes=(replace(OURS, slot="run2-1"),)), RULES, "is in use", True),
        (replace(FREE, processes=(SERVER,)), RULES, "", False),
        (replace(FREE, free=30 * GB), WITH_ROOM, "has 30.0 GB free of 80.0 GB, and 40.0", True),
        (replace(FREE, free=30 * GB), replace(WITH_ROOM, share=True), "has 30.0 GB free", True),
        (replace(FREE, free=50 * GB), WITH_ROOM, "", False),
        (replace(FREE, free=30 * GB), RULES, "has 50.0 GB of 80.0 GB taken by processes", True),
        (replace(FREE, free=78 * GB), RULES, "", False),
        (replace(FREE, free=30 * GB, mig=True), RULES, "", False),
    ],
)  # fmt: skip
def test_a_gpu_is_taken_only_where_it_is_well_and_free(
    gpu: GpuState, rules: Rules, output: str, busy: bool
) -> None:
    found = unfit([gpu], rules)
    if not output:
        assert found is None
    else:
        assert found is not None
        assert output in found.reason
        assert (found.gpus, found.busy) == ((0,), busy)


def test_a_fault_of_one_gpu_goes_before_the_business_of_another() -> None:
    busy, broken = replace(FREE, processes=(THEIRS,)), GpuState(index=1, lost="gone")
    found = unfit([busy, broken], replace(RULES, gpus=(0, 1)))
    assert found is not None
    assert (found.gpus, found.busy) == ((1,), False)


class Scripted:
    """NVML that shows one state after the other, the last one for ever."""

    def __init__(self, *states: GpuState) -> None:
        self.states = list(states)

    def driver(self) -> str:
        return ""

    def cuda(self) -> str:
        return ""

    def watched(self, indices: Collection[int]) -> tuple[GpuState, ...]:
        return self.gpus()

    def gpus(self) -> tuple[GpuState, ...]:
        return (self.states.pop(0) if len(self.states) > 1 else self.states[0],)


def waited(*states: GpuState) -> Unfit | None:
    time = [0.0]
    return wait_until_fit(
        Scripted(*states),
        RULES,
        now=lambda: time[0],
        sleep=lambda s: time.__setitem__(0, time[0] + s),
    )


def test_memory_of_a_slot_that_just_ended_is_waited_for() -> None:
    held = replace(FREE, free=20 * GB)
    assert waited(held, held, FREE) is None
    found = waited(held)
    assert found is not None
    assert found.busy


def test_the_rules_are_those_of_the_opening_frame() -> None:
    asked = {"share": True, "trial": False, "memory": 5, "neighbours": 0}
    found = parse_rules({"gpus": "0,2", "slot": "run1-4", "gpu_checks": asked})
    assert found == Rules(gpus=(0, 2), share=True, memory=5, run="run1")


def asking(result: Any) -> Any:
    """`opened` that raises, or gives an NVML."""

    @contextmanager
    def opened() -> Any:
        if isinstance(result, Exception):
            raise result
        yield result

    return opened


def test_gpus_that_cannot_be_asked_are_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "open_nvml", asking(DeviceError("NVML is of another version")))
    found = check_gpus(RULES)
    assert found is not None
    assert (found.reason, found.busy) == ("NVML is of another version", False)


def test_an_interpreter_that_cannot_ask_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_checks, "open_nvml", asking(MissingExtra("pip install nvidia-ml-py")))
    assert check_gpus(RULES) is None
    assert "GPUs are not checked: pip install nvidia-ml-py" in capsys.readouterr().err


def test_a_trial_is_made_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "open_nvml", asking(Scripted(FREE)))
    assert check_gpus(RULES, lambda: "it multiplies wrongly") is None
    found = check_gpus(replace(RULES, trial=True), lambda: "it multiplies wrongly")
    assert found is not None
    assert found.reason == "its trial failed: it multiplies wrongly"
    assert check_gpus(replace(RULES, trial=True), lambda: "") is None
