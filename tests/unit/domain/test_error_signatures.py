"""What libraries and systems write when they fail is known by its words."""

from __future__ import annotations

import pytest

from benchfleet.domain.error_signatures import (
    ERROR_SIGNATURES,
    RETRYABLE_KINDS,
    find_error_signature,
)
from benchfleet.domain.failure import KINDS


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "oom"),
        ("RuntimeError: CUDA error: out of memory", "oom"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "oom"),
        ("OSError: [Errno 12] Cannot allocate memory", "oom"),
        ("CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "oom"),
        ("slurmstepd: error: Detected 1 oom-kill event(s)", "oom"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "gpu_fault"),
        ("CUDA error: uncorrectable ECC error encountered", "gpu_fault"),
        ("torch.AcceleratorError: CUDA error: unspecified launch failure", "gpu_fault"),
        ("CUDA error: device-side assert triggered", "gpu_fault"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "gpu_fault"),
        ("ncclUnhandledCudaError: Call to CUDA function failed.", "gpu_fault"),
        ("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL", "stuck"),
        ("OSError: [Errno 28] No space left on device: 'x'", "disk_full"),
        ("OSError: [Errno 122] Disk quota exceeded", "disk_full"),
    ],
)
def test_every_sign_is_known(text: str, kind: str) -> None:
    found = find_error_signature(f"a line before\n  {text}  \na line after")
    assert found is not None
    assert (found.kind, found.line) == (kind, text)


@pytest.mark.parametrize(
    "text", ["", "all is well", "an illegal memory access of opinion", "oxidation of the GPU"]
)
def test_what_is_no_sign_is_none(text: str) -> None:
    assert find_error_signature(text) is None


def test_what_was_written_first_is_the_reason_of_what_follows() -> None:
    found = find_error_signature(
        "CUDA error: uncorrectable ECC error\nCUDA out of memory\nNo space left"
    )
    assert found is not None
    assert found.kind == "gpu_fault"


def test_signs_are_of_kinds_that_there_are_and_may_be_gone_the_next_time() -> None:
    assert {sign.kind for sign in ERROR_SIGNATURES} <= RETRYABLE_KINDS
    assert set(KINDS) > RETRYABLE_KINDS
    assert all(sign.words == sign.words.lower() for sign in ERROR_SIGNATURES)
