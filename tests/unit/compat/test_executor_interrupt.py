"""Ctrl-C while a call runs is kept until its work is in order, and never lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from benchfleet.compat.executor.interrupt import deferred_interrupt
from benchfleet.runner.events import EventQueue, Interrupted


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Python's own handler before, and what was there after."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def _serving() -> threading.Event:
    serving = threading.Event()
    serving.set()
    return serving


def _guarded(
    inbox: EventQueue, *steps: Callable[[], object], serving: threading.Event | None = None
) -> None:
    with deferred_interrupt(inbox, serving or _serving()):
        for step in steps:
            step()


def test_a_ctrl_c_is_posted_first_and_raised_after_the_block() -> None:
    inbox, done = EventQueue(), []
    with pytest.raises(KeyboardInterrupt):
        _guarded(inbox, _ctrl_c, _ctrl_c, lambda: done.append("the rest"))
    assert done == ["the rest"]
    assert [inbox.take(0), inbox.take(0), inbox.take(0)] == [
        Interrupted(signal="SIGINT"),
        Interrupted(signal="SIGINT"),
        None,
    ]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_ctrl_c_nothing_is_raised_and_the_handler_is_back() -> None:
    with deferred_interrupt(EventQueue(), _serving()):
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_block_goes_before_the_ctrl_c() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        _guarded(EventQueue(), _ctrl_c, lambda: int("one"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_callers_own_is_called_in_the_end() -> None:
    called: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: called.append(number))
    with pytest.raises(KeyboardInterrupt):
        _guarded(EventQueue(), _ctrl_c, lambda: called.append(0))
    assert called == [0, signal.SIGINT]


def test_a_ctrl_c_before_anything_runs_is_raised_at_once() -> None:
    called: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: called.append(number))
    serving, done = threading.Event(), list[str]()
    with pytest.raises(KeyboardInterrupt):
        _guarded(EventQueue(), _ctrl_c, lambda: done.append("waited"), serving=serving)
    assert (called, done, serving.is_set()) == ([signal.SIGINT], [], True)


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inbox = EventQueue()
    _guarded(inbox, _ctrl_c)
    assert inbox.take(0) is None


def test_another_thread_than_the_main_one_touches_no_handler() -> None:
    seen: list[object] = []

    def call() -> None:
        with deferred_interrupt(EventQueue(), _serving()):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
