"""Virtual time: exactly one thread has its turn, and it is never one that cannot give it back."""

from __future__ import annotations

import threading

from simulation.turns import Gate, Turns


def test_a_thread_that_was_made_and_not_started_is_never_given_a_turn() -> None:
    output: list[str] = []

    def story() -> None:
        turns = Turns()
        made = turns.strand(Gate(), lambda: output.append("made"))
        turns.wake(made)  # as all of a process that is killed are
        turns.wait_until(turns.now() + 1.0)
        output.append("main")
        made.start()
        turns.wait_until(turns.now() + 1.0)

    thread = threading.Thread(target=story, daemon=True)
    thread.start()
    thread.join(10.0)  # else it waits for its turn for ever
    assert output == ["main", "made"]
