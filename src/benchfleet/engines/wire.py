"""A slot's frames as the events that every engine posts."""

from __future__ import annotations

from benchfleet.domain.failure import Failure
from benchfleet.engines.base import (
    Done,
    Failed,
    FileSent,
    Progressed,
    Recorded,
    SlotEvent,
    SlotId,
    Started,
    Stopped,
)
from benchfleet.engines.frames import Frame
from benchfleet.errors import ProtocolError


def to_event(slot: SlotId, frame: Frame) -> SlotEvent:
    """The event that a frame stands for. Raises `ProtocolError` for one that stands for none."""
    fields = frame.fields
    try:
        attempt = fields["attempt"]
        if frame.type == "started":
            return Started(slot=slot, attempt=attempt, stage=fields["stage"])
        if frame.type == "progress":
            return Progressed(
                slot=slot, attempt=attempt, done=fields["done"], total=fields["total"]
            )
        if frame.type == "sample":
            return Recorded(
                slot=slot,
                attempt=attempt,
                lines=b"".join(frame.attached),
                done=fields["done"],
                total=fields["total"],
            )
        if frame.type == "file":
            return FileSent(
                slot=slot, attempt=attempt, name=fields["name"], data=b"".join(frame.attached)
            )
        if frame.type == "done":
            return Done(
                slot=slot,
                attempt=attempt,
                score=fields["score"],
                seconds=fields["seconds"],
                provenance=fields["provenance"],
            )
        if frame.type == "failed":
            return Failed(
                slot=slot,
                attempt=attempt,
                failure=Failure.from_dict(fields["failure"]),
                seconds=fields["seconds"],
                fit=fields["fit"],
            )
        if frame.type == "stopped":
            return Stopped(slot=slot, attempt=attempt, reason=fields["reason"], fit=fields["fit"])
    except (KeyError, TypeError) as error:
        raise ProtocolError(f"frame {frame.type!r} lacks {error}") from None
    raise ProtocolError(f"there is no frame {frame.type!r}")
