"""What libraries and systems write when they fail, and the kind of failure that it is a sign of."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass

from .failure import Kind

_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_KILLED = frozenset(code for one in _OUTSIDE for code in (-one, 128 + one))  # also of a shell
_CONNECTION = re.compile(
    r"connection ?(error|refused|reset|aborted)|connecterror|remote end closed connection"
    r"|\bhttp(?: error| status)?[ :]*5\d\d\b|\b5\d\d server error",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class ErrorSignature:
    """Words that give a failure away, in lower case."""

    kind: Kind
    words: str
    beside: tuple[str, ...] = ()  # of which one must stand in the same line


_GPU = ("cuda", "gpu", "nccl", "nvrm")
ERROR_SIGNATURES = (
    *(
        ErrorSignature(kind="oom", words=words)
        for words in (
            "out of memory",
            "cuda_error_out_of_memory",
            "cublas_status_alloc_failed",
            "cannot allocate memory",
            "can't allocate",
            "std::bad_alloc",
            "memoryerror",
            "oom-kill",
            "oom_kill",
        )
    ),
    *(
        ErrorSignature(kind="gpu_fault", words=words, beside=_GPU)
        for words in (
            "illegal memory access",
            "illegal address",
            "illegal_address",
            "illegal instruction",
            "misaligned address",
            "device-side assert",
            "unspecified launch failure",
            "uncorrectable ecc",
            "eccuncorrectable",
            "fallen off the bus",
            "gpu is lost",
            "hardware stack error",
            "xid (",
            "xid ",
            "unhandled cuda error",
            "unhandledcudaerror",
            "cublas_status_execution_failed",
            "cudnn_status_execution_failed",
        )
    ),
    ErrorSignature(kind="stuck", words="watchdog caught collective operation timeout"),
    ErrorSignature(kind="disk_full", words="no space left on device"),
    ErrorSignature(kind="disk_full", words="disk quota exceeded"),
)
RETRYABLE_KINDS: frozenset[Kind] = frozenset(
    {
        "oom",
        "gpu_fault",
        "stuck",
        "timeout",
        "disk_full",
        "slot_lost",
        "host_lost",
        "crash",
        "killed",
        "connection",
        "rate_limited",
        "server_unavailable",
        "server_died",
        "try_again",
    }
)  # kinds that may be gone the next time


@dataclass(frozen=True, kw_only=True)
class SignatureMatch:
    """A sign, and the line that it stands in."""

    kind: Kind
    line: str


def find_error_signature(text: str) -> SignatureMatch | None:
    """The first line that gives a failure away: what follows from it comes later."""
    for line in text.splitlines():
        lowered = line.lower()
        for sign in ERROR_SIGNATURES:
            if sign.words in lowered and (
                not sign.beside or any(word in lowered for word in sign.beside)
            ):
                return SignatureMatch(kind=sign.kind, line=line.strip())
    return None


def is_connection_failure(line: str) -> bool:
    """Whether an error message is of a server that is away, or that answers HTTP 5xx."""
    return _CONNECTION.search(line) is not None


def kind_of_exit(code: int) -> Kind:
    """The kind of failure of a process by its exit code; a negative one is its signal."""
    if code == os.EX_TEMPFAIL:
        return "try_again"
    return "killed" if code in _KILLED else "error"
