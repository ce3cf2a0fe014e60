"""Messages for a slot that did not start, was refused, or ended, with what to do."""

from __future__ import annotations

import errno
import signal

import benchfleet
from benchfleet.engines.base import SlotLost
from benchfleet.engines.child import Child
from benchfleet.engines.frames import PROTOCOL, Frame

_REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n), or run fewer slots",
    errno.ENFILE: "raise the system's limit of open files, or run fewer slots",
    errno.EAGAIN: "raise the limit of processes (ulimit -u), or run fewer slots",
    errno.ENOMEM: "run fewer slots, so that memory is left",
    errno.ENOSPC: "make room on the disk",
    errno.ENOTDIR: "move away what stands in the place of a folder",
    errno.EEXIST: "move away what stands in the place of a folder",
    errno.EACCES: "make it accessible to this user",
    errno.ENOENT: "see that it is still there",
}


def slot_lost(child: Child, reason: str, code: int | None, *, host_lost: bool = False) -> SlotLost:
    """The last event of a slot."""
    expected = child.closing_since is not None and not child.reason
    return SlotLost(
        slot=child.id,
        reason=reason,
        expected=expected,
        exit_code=code,
        host_lost=host_lost and not expected,
        kind=None if expected else child.kind,
        unfit=child.unfit,
        busy=child.busy,
    )


def exit_reason(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "its end was not seen"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"


def version_mismatch(hello: Frame) -> str:
    """Why a slot that says this hello is refused; ``""`` where it is not."""
    protocol, version = hello.fields.get("protocol"), hello.fields.get("version")
    if protocol != PROTOCOL:
        return (
            f"speaks protocol {protocol}, this runner {PROTOCOL}: "
            "install the same benchfleet in the slot's interpreter"
        )
    if version != benchfleet.__version__:
        return (
            f"is benchfleet {version}, this runner {benchfleet.__version__}: "
            "install the same in the slot's interpreter"
        )
    return ""


def start_failure(error: OSError) -> str:
    """Why its process could not be started."""
    remedy = _REMEDIES.get(error.errno or 0, "see what the system's own log says of it")
    where = f" ({error.filename})" if error.filename else ""
    return f"its process cannot be started: {error.strerror or error}{where}; {remedy}"
