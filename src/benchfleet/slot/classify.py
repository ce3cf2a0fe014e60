"""Giving an exception its name: stage × kind."""

from __future__ import annotations

from benchfleet.domain.failure import KINDS, STAGES, Failure, Kind, Stage
from benchfleet.environment import without_token
from benchfleet.errors import CellFailure, MissingExtra, UnknownName

_OUT_OF_MEMORY = (
    "out of memory",
    "cuda_error_out_of_memory",
    "cannot allocate memory",
    "can't allocate",
)
_MOST = 2**16  # characters of a message or a trace; both ends of a longer one are kept
_GPU_FAULT = ("illegal memory access", "device-side assert", "uncorrectable ecc", "xid")


def classify(error: BaseException, stage: Stage, *, trace: str) -> Failure:
    """The failure that `error` is, where it was raised while `stage` ran.

    A `CellFailure` says its stage and kind itself; everything else is known by type, then by
    what the GPU's libraries write into their messages. The user's token is in none of it.
    """
    trace, said = _bounded(without_token(trace)), _bounded(without_token(str(error)))
    message = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, CellFailure):
        named: Stage = next((s for s in STAGES if s == error.stage), stage)
        kind: Kind = next((k for k in KINDS if k == error.kind), "error")
        return Failure(
            stage=named, kind=kind, message=said, retryable=error.is_retryable, trace=trace
        )
    kind, retryable = _kind(error, message.lower())
    return Failure(stage=stage, kind=kind, message=message, retryable=retryable, trace=trace)


def _kind(error: BaseException, text: str) -> tuple[Kind, bool]:
    if isinstance(error, MissingExtra):
        return "missing_extra", False
    if isinstance(error, UnknownName):
        return "user_error", False
    if isinstance(error, MemoryError) or any(sign in text for sign in _OUT_OF_MEMORY):
        return "oom", True
    if any(sign in text for sign in _GPU_FAULT) and ("cuda" in text or "gpu" in text):
        return "gpu_fault", True
    if isinstance(error, TimeoutError):
        return "timeout", True
    if isinstance(error, OSError) and error.errno == 28:
        return "disk_full", True
    return "error", False


def _bounded(text: str) -> str:
    half = _MOST // 2
    return text if len(text) <= _MOST else f"{text[:half]}\n[…]\n{text[-half:]}"
