"""Frames to and from a slot, and the events that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchfleet.domain.failure import KINDS, STAGES, Failure
from benchfleet.domain.resource import GpuChecks
from benchfleet.domain.telemetry import Reading
from benchfleet.engines.base import (
    AttemptRequest,
    Calling,
    Checkpointed,
    Done,
    Failed,
    FileSent,
    Measured,
    Progressed,
    Recorded,
    SlotEvent,
    SlotId,
    SlotSpec,
    Started,
    Stopped,
    Warned,
)
from benchfleet.engines.frames import Frame, encode, whole_lines
from benchfleet.errors import ProtocolError

RECORDED_BYTES = 8 * 2**20  # of earlier samples in one frame
_SCORE = {"overall", "per_sample", "tasks", "summary"}
_OPTIONAL = {"unparsed", "parsed", "measures"}


def open_frame(
    spec: SlotSpec, *, heartbeat: float, silence: float, gpus: str | None = None, **fields: Any
) -> bytes:
    """The first frame of a slot: its share of the machine, with what differs by engine. `gpus` are
    the ids that something else chose for it."""
    if gpus is None:
        gpus = ",".join(str(device.index) for device in spec.devices if device.kind == "gpu")
    return encode(
        "open",
        slot=spec.slot,
        gpus=gpus,
        threads=spec.threads,
        heartbeat=heartbeat,
        silence=silence,
        **fields,
    )


def gpu_checks(spec: SlotSpec, checks: GpuChecks | None, *, named: bool) -> dict[str, Any]:
    """The field of the first frame that says which checks its GPUs must pass; `named`: they were
    named one by one."""
    if checks is None:
        return {}
    required = {"share": checks.share and named, "trial": checks.trial, "memory": spec.memory}
    return {"gpu_checks": {**required, "neighbours": spec.neighbours}}


def request_frames(request: AttemptRequest, **fields: Any) -> Iterator[bytes]:
    """The frames of a request: its earlier samples in pieces, then the request itself, with what
    differs by engine. Raises `ProtocolError` where it is too large."""
    for piece in whole_lines(request.recorded, RECORDED_BYTES):
        yield encode("recorded", (piece,), attempt=request.attempt)
    yield encode(
        "run",
        attempt=request.attempt,
        batch_size=request.batch_size,
        rescore=request.rescore,
        trial=request.trial,
        **fields,
    )


def to_event(slot: SlotId, frame: Frame) -> SlotEvent:
    """The event that a frame stands for. Raises `ProtocolError` for one that stands for none."""
    attempt = _field(frame, "attempt", str)
    if frame.type == "started":
        stage = _field(frame, "stage", str)
        if stage not in STAGES:
            raise ProtocolError(f"frame 'started': unknown stage {stage!r}")
        limit = _field(frame, "limit", float) if "limit" in frame.fields else None
        return Started(slot=slot, attempt=attempt, stage=stage, limit=limit)
    if frame.type == "progress":
        return Progressed(
            slot=slot, attempt=attempt, done=_count(frame, "done"), total=_count(frame, "total")
        )
    if frame.type == "checkpoint":
        return Checkpointed(slot=slot, attempt=attempt, metrics=_numbers(frame, "metrics"))
    if frame.type == "calling":
        count, sample = _count(frame, "count"), frame.fields.get("sample")
        if sample is not None:
            sample = _count(frame, "sample")
        return Calling(slot=slot, attempt=attempt, count=count, sample=sample)
    if frame.type == "reading":
        return Measured(slot=slot, attempt=attempt, reading=_reading(frame))
    if frame.type == "warning":
        return Warned(slot=slot, attempt=attempt, message=_field(frame, "message", str))
    if frame.type == "sample":
        return Recorded(
            slot=slot,
            attempt=attempt,
            lines=b"".join(frame.attached),
            done=_count(frame, "done"),
            total=_count(frame, "total"),
            tokens=(_count(frame, "prompt_tokens"), _count(frame, "completion_tokens")),
        )
    if frame.type == "file":
        name = _field(frame, "name", str)
        return FileSent(slot=slot, attempt=attempt, name=name, data=b"".join(frame.attached))
    if frame.type == "done":
        return Done(
            slot=slot,
            attempt=attempt,
            score=_score(frame),
            seconds=_seconds(frame),
            provenance=_field(frame, "provenance", dict),
        )
    if frame.type == "failed":
        return Failed(
            slot=slot,
            attempt=attempt,
            failure=_failure(frame),
            seconds=_seconds(frame),
            fit=_field(frame, "fit", bool),
        )
    if frame.type == "stopped":
        return Stopped(
            slot=slot,
            attempt=attempt,
            reason=_field(frame, "reason", str),
            fit=_field(frame, "fit", bool),
        )
    raise ProtocolError(f"unknown frame {frame.type!r}")


def to_unfit(frame: Frame) -> tuple[str, tuple[int, ...], bool]:
    """Why a slot does not take its GPUs, which of them, and whether they are only busy. Raises
    ProtocolError."""
    gpus = _field(frame, "gpus", list)
    if not all(type(index) is int for index in gpus):
        raise ProtocolError(f"frame 'unfit': gpus must be numbers, not {gpus!r:.100}")
    return _field(frame, "reason", str), tuple(gpus), _field(frame, "busy", bool)


def _field(frame: Frame, name: str, kind: type) -> Any:
    value = frame.fields.get(name)
    if not isinstance(value, kind):
        raise ProtocolError(
            f"frame {frame.type!r}: {name} must be of type {kind.__name__}, not {value!r:.100}"
        )
    return value


def _count(frame: Frame, name: str) -> int:
    value: int = _field(frame, name, int)
    if isinstance(value, bool) or value < 0:
        raise ProtocolError(f"frame {frame.type!r}: {name} must be a count, not {value!r}")
    return value


def _reading(frame: Frame) -> Reading:
    try:
        return Reading.from_dict(_field(frame, "reading", dict))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"frame 'reading': {error!r:.200}") from None


def _seconds(frame: Frame) -> Mapping[str, float]:
    return _numbers(frame, "seconds")


def _numbers(frame: Frame, name: str) -> Mapping[str, float]:
    value: Mapping[str, Any] = _field(frame, name, dict)
    if not all(type(number) in (int, float) for number in value.values()):
        raise ProtocolError(f"frame {frame.type!r}: {name} must be numbers, not {value!r:.100}")
    return value


def _score(frame: Frame) -> Mapping[str, Any]:
    """What its parts hold is judged where the attempt is sealed: a cell's bad result is its own."""
    score: Mapping[str, Any] = _field(frame, "score", dict)
    if set(score) - _OPTIONAL != _SCORE:
        raise ProtocolError(
            f"frame 'done': a score has {', '.join(sorted(_SCORE))}, not {list(score)!r:.100}"
        )
    return score


def _failure(frame: Frame) -> Failure:
    value: dict[str, Any] = _field(frame, "failure", dict)
    try:
        failure = Failure.from_dict(value)
    except TypeError as error:
        raise ProtocolError(f"frame 'failed': {error}") from None
    texts = (failure.message, failure.trace, failure.log_tail)
    if (
        failure.stage not in STAGES
        or failure.kind not in KINDS
        or type(failure.retryable) is not bool
        or type(failure.retry_after_s) not in (int, float)
        or not all(isinstance(text, str) for text in texts)
    ):
        raise ProtocolError(f"frame 'failed': invalid failure {value!r:.300}")
    return failure
