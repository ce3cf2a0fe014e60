"""What is given to the writers is done in its order, several at a time, and all of it."""

from __future__ import annotations

import threading

from benchfleet.runner.ending.writers import Writers


def test_all_that_was_given_is_done_in_its_order_when_they_are_closed() -> None:
    done: list[int] = []
    writers = Writers(1)
    for number in range(100):
        writers.give(lambda number=number: done.append(number))
    writers.close()
    assert done == list(range(100))


def test_others_help_where_much_waits_for_the_disk() -> None:
    slow, helped = threading.Event(), threading.Event()
    begun = threading.Barrier(2, timeout=30)
    writers = Writers(2)
    writers.give(lambda: (begun.wait() and None) or (slow.wait(30) and None))
    begun.wait()
    for _ in range(2):
        writers.give(lambda: None)
    writers.give(helped.set)
    assert helped.wait(30)
    slow.set()
    writers.close()


def test_who_does_several_at_once_is_helped_where_more_than_that_waits() -> None:
    begun, slow, helped = threading.Event(), threading.Event(), threading.Event()
    writers = Writers(2, together=3)
    writers.give(lambda: begun.set() or (slow.wait(30) and None))
    assert begun.wait(30)
    done: list[int] = []
    for number in range(6):  # as many as it does in two turns
        writers.give(lambda number=number: done.append(number))
    writers.give(helped.set)
    assert helped.wait(30)
    assert not done
    slow.set()
    writers.close()
    assert done == list(range(6))


def test_who_is_long_at_one_thing_is_helped_with_what_comes_meanwhile() -> None:
    begun, slow, helped = threading.Event(), threading.Event(), threading.Event()
    now, done = [0.0], list[str]()
    writers = Writers(2, together=32, clock=lambda: now[0])
    writers.give(lambda: begun.set() or (slow.wait(30) and None))
    assert begun.wait(30)
    writers.give(lambda: done.append("soon after"))
    now[0] = 1.0
    writers.give(helped.set)
    assert helped.wait(30)
    assert not done
    slow.set()
    writers.close()
    assert done == ["soon after"]
