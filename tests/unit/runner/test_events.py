"""The queue hands over what any thread posts, in order."""

from __future__ import annotations

import signal
import threading

from benchfleet.runner.events import EventQueue, Interrupted


def test_what_another_thread_posts_wakes_who_waits() -> None:
    events = EventQueue()
    for number in range(200):
        posting = threading.Thread(target=events.post, args=(Interrupted(signal=str(number)),))
        posting.start()
        assert events.take(60.0) == Interrupted(signal=str(number))
        posting.join()


def test_what_a_signal_handler_posts_wakes_who_waits() -> None:
    events = EventQueue()
    before = signal.signal(signal.SIGALRM, lambda *_: events.post(Interrupted(signal="SIGALRM")))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert events.take(60.0) == Interrupted(signal="SIGALRM")
    finally:
        signal.signal(signal.SIGALRM, before)


def test_nothing_is_taken_once_the_wait_is_over() -> None:
    events = EventQueue()
    assert [events.take(0.01), events.take(0.0), events.take(-1.0)] == [None, None, None]
