"""Classifies exceptions: stage × kind."""

from __future__ import annotations

from subprocess import CalledProcessError

from benchfleet.domain.error_signatures import (
    RETRYABLE_KINDS,
    find_error_signature,
    is_connection_failure,
    kind_of_exit,
)
from benchfleet.domain.failure import KINDS, STAGES, Failure, Kind, Stage
from benchfleet.environment import without_token
from benchfleet.errors import CellFailure, MissingExtra, PluginError

_CONNECTION_ERRORS = frozenset({"ConnectionError", "APIConnectionError", "ConnectError"})
MAX_TEXT_CHARS = 2**16  # of a message or a trace; both ends of a longer one are kept


def classify(error: BaseException, stage: Stage, *, trace: str) -> Failure:
    """The failure that `error` is, where it was raised while `stage` ran.

    A `CellFailure` says its stage and kind itself; everything else is known by type, then by
    what the GPU's libraries write into their messages. The user's token is in none of it.
    """
    trace, detail = _bounded(without_token(trace)), _bounded(without_token(str(error)))
    message = f"{type(error).__name__}: {detail}" if detail else type(error).__name__
    if isinstance(error, CellFailure):
        named: Stage = next((s for s in STAGES if s == error.stage), stage)
        kind: Kind = next((k for k in KINDS if k == error.kind), "error")
        return Failure(
            stage=named,
            kind=kind,
            message=detail,
            retryable=error.is_retryable,
            trace=trace,
            retry_after_s=error.retry_after_s,
        )
    kind = _kind(error, message)
    return Failure(
        stage=stage, kind=kind, message=message, retryable=kind in RETRYABLE_KINDS, trace=trace
    )


def _kind(error: BaseException, message: str) -> Kind:
    if isinstance(error, MissingExtra):
        return "missing_extra"
    if isinstance(error, PluginError):
        return "user_error"
    if isinstance(error, MemoryError):
        return "oom"
    if sign := find_error_signature(message):
        return sign.kind
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, CalledProcessError):
        return kind_of_exit(error.returncode)
    return "connection" if _is_connection_failure(error, message) else "error"


def _is_connection_failure(error: BaseException, message: str) -> bool:
    """By type name too: clients such as requests and httpx have errors of their own."""
    names = {base.__name__ for base in type(error).__mro__}
    if not names.isdisjoint(_CONNECTION_ERRORS):
        return True
    answers = (error, getattr(error, "response", None))
    statuses = [getattr(one, key, None) for one in answers for key in ("status_code", "code")]
    if any(isinstance(status, int) and 500 <= status < 600 for status in statuses):
        return True
    return isinstance(error, (OSError, RuntimeError)) and is_connection_failure(message)


def _bounded(text: str) -> str:
    half = MAX_TEXT_CHARS // 2
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:half]}\n[…]\n{text[-half:]}"
