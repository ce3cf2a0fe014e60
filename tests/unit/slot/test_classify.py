"""An exception gets the name of its reason."""

from __future__ import annotations

import errno
from email.message import Message
from subprocess import CalledProcessError
from urllib.error import HTTPError, URLError

import pytest

from benchfleet.errors import CellFailure, MissingExtra, UnknownName
from benchfleet.slot.classify import classify


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (MemoryError(), "oom", True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "oom", True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "oom", True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "gpu_fault", True),
        (RuntimeError("an illegal memory access of opinion"), "error", False),
        (OSError(errno.ENOSPC, "No space left on device"), "disk_full", True),
        (TimeoutError("too slow"), "timeout", True),
        (MissingExtra("pip install 'benchfleet[hf]'"), "missing_extra", False),
        (UnknownName("no benchmark 'x'"), "user_error", False),
        (ValueError("anything else"), "error", False),
        (SystemExit(3), "error", False),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "connection", True),
        (ConnectionResetError(), "connection", True),
        (HTTPError("http://x", 503, "busy", Message(), None), "connection", True),
        (HTTPError("http://x", 404, "none", Message(), None), "error", False),
        (URLError(ConnectionRefusedError(111, "Connection refused")), "connection", True),
        (ValueError("the answer was 'connection refused'"), "error", False),
        (CalledProcessError(-9, ["tool"]), "killed", True),
        (CalledProcessError(75, ["tool"]), "try_again", True),
        (CalledProcessError(1, ["tool"]), "error", False),
    ],
)
def test_every_kind_is_known_by_its_signs(error: BaseException, kind: str, retryable: bool) -> None:
    failure = classify(error, "benchmark", trace="the trace")
    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert (failure.stage, failure.trace) == ("benchmark", "the trace")


def test_a_failure_that_names_itself_is_believed() -> None:
    error = CellFailure(stage="load", kind="model_not_found", message="no such folder")
    failure = classify(error, "benchmark", trace="")
    assert (failure.stage, failure.kind, failure.message) == (
        "load",
        "model_not_found",
        "no such folder",
    )


def test_a_name_that_is_none_falls_back_to_what_was_going_on() -> None:
    failure = classify(CellFailure(stage="nap", kind="tired", message="x"), "load", trace="")
    assert (failure.stage, failure.kind) == ("load", "error")


def test_a_message_without_end_is_cut_in_its_middle() -> None:
    failure = classify(ValueError("first" + "x" * 10**6 + "last"), "load", trace="y" * 10**6)
    assert len(failure.message) + len(failure.trace) < 140_000
    assert "first" in failure.message
    assert failure.message.endswith("last")


def test_a_failure_does_not_repeat_the_users_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    trace = "RuntimeError: Bearer hf_secretsecret\n"
    for error in (RuntimeError(trace), CellFailure(stage="load", kind="error", message=trace)):
        failure = classify(error, "benchmark", trace=trace)
        assert "hf_secret" not in failure.message + failure.trace
        assert "Bearer [token]" in failure.message
