"""The end of a slot gets the name of its first true reason."""

from __future__ import annotations

import signal

import pytest

from benchfleet.domain.failure import Kind
from benchfleet.engines.base import SlotId, SlotLost
from benchfleet.runner.attempt.exit_cause import find_exit_cause

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
FULL = "OSError: [Errno 28] No space left on device"


def lost(code: int | None, **more: object) -> SlotLost:
    return SlotLost(slot=SlotId("s"), reason=f"the end {code}", exit_code=code, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "tail", "kind", "output"),
    [
        (-signal.SIGSEGV, "", "crash", "memory that is not its own"),
        (-signal.SIGBUS, "", "crash", "/dev/shm"),
        (-signal.SIGABRT, "", "crash", "a library gave up"),
        (-signal.SIGILL, "", "crash", "another processor"),
        (-signal.SIGABRT, f"{ECC}\nterminate called\nAborted", "gpu_fault", ECC),
        (-signal.SIGABRT, "what():  std::bad_alloc", "oom", "std::bad_alloc"),
        (-signal.SIGBUS, FULL, "crash", "a full disk"),
        (-signal.SIGSEGV, FULL, "crash", "memory that is not its own"),
        (128 + signal.SIGSEGV, "", "crash", "memory that is not its own"),
        (1, OOM, "oom", OOM),
        (1, f"{ECC}\n{OOM}", "gpu_fault", ECC),
        (1, FULL, "disk_full", FULL),
        (7, "nothing to see", "slot_lost", "the end 7"),
        (None, "", "slot_lost", "the end None"),
        (-signal.SIGKILL, "", "slot_lost", "the end -9"),
        (-signal.SIGKILL, OOM, "slot_lost", "the end -9"),  # it lived on after that
        (137, "Killed", "slot_lost", "the end 137"),
        (137, "Out of memory: Killed process 7 (python)", "oom", "Killed process 7"),
        (-signal.SIGTERM, OOM, "slot_lost", "the end -15"),
    ],
)
def test_what_is_left_of_a_slot_says_why_it_ended(
    code: int | None, tail: str, kind: Kind, output: str
) -> None:
    found = find_exit_cause(lost(code), tail)
    assert found.kind == kind
    assert found.message.startswith(f"its slot ended: the end {code}")
    assert output in found.message


def test_what_its_supervisor_saw_goes_before_all_signs() -> None:
    assert find_exit_cause(lost(-signal.SIGKILL, kind="oom"), ECC).kind == "oom"
    assert find_exit_cause(lost(-signal.SIGSEGV, kind="stuck"), "").kind == "stuck"


def test_a_host_that_is_gone_is_no_fault_of_the_slot() -> None:
    assert find_exit_cause(lost(None, host_lost=True), ECC).kind == "host_lost"


def test_a_line_without_end_is_cut() -> None:
    assert len(find_exit_cause(lost(1), f"CUDA out of memory {'x' * 10**5}").message) < 500


def test_the_python_stack_of_a_crash_is_its_trace() -> None:
    stack = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
    )
    frames = "".join(f'  File "a.py", line {n} in f{n}\n' for n in range(40))
    cause = find_exit_cause(
        lost(-signal.SIGSEGV), f"loading\n{stack}{frames}\nExtension modules: x (total: 1)\n"
    )
    assert cause.kind == "crash"
    assert cause.trace == (stack + frames).strip()
    assert cause.message.endswith('in File "a.py", line 0 in f0')
    bad_alloc = find_exit_cause(lost(-signal.SIGABRT), f"what():  std::bad_alloc\n{stack}{frames}")
    assert bad_alloc.kind == "oom"
