"""Ctrl-C while a library call runs: the run ends in good order first, and then it is raised."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from benchfleet.runner.events import EventQueue, Interrupted


def handles_ctrl_c() -> bool:
    """Whether a Ctrl-C would reach a call that is made here and now."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return in_main_thread and callable(signal.getsignal(signal.SIGINT))


@contextmanager
def deferred_interrupt(inbox: EventQueue, serving: threading.Event) -> Iterator[None]:
    """Post each Ctrl-C to the inbox while the block runs, and raise KeyboardInterrupt after it; at
    once until it is `serving`, since nothing runs yet then.

    Only the main thread is sent signals: in any other this does nothing. Nor does it where Ctrl-C
    is ignored, or left to the system. The handler that was there before is called first when it
    is time to raise, since the Ctrl-C was meant for it.
    """
    before = signal.getsignal(signal.SIGINT)
    if not handles_ctrl_c():
        yield
        return
    interrupted = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        inbox.post(Interrupted(signal=signal.Signals(number).name))
        if not serving.is_set():
            serving.set()  # nothing waits for a server from now on
            signal.signal(signal.SIGINT, before)
            signal.raise_signal(signal.SIGINT)
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        signal.raise_signal(signal.SIGINT)
        raise KeyboardInterrupt
