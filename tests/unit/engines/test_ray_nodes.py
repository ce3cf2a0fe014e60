"""The nodes of a Ray cluster, as far as no cluster is needed."""

from __future__ import annotations

from benchfleet.engines.ray_nodes import retry_pause


def test_a_node_that_gives_no_answer_is_asked_again_soon_and_then_less_often() -> None:
    pauses = [retry_pause(failures) for failures in (0, 1, 2, 3, 4, 2000)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
