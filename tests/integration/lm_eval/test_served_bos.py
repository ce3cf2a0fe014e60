"""The BOS token of likelihoods that are asked from a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.testing.simulated_server import SimulatedServer

from .test_served import run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
BOS = 1  # of the example's tokenizer, which begins each text with it


@pytest.mark.parametrize("add", [None, False, True])
def test_a_bos_is_added_where_it_is_asked_for_and_its_lack_is_reported(
    tasks: Path, add: bool | None
) -> None:
    with SimulatedServer() as server:
        params = {"metric": "acc", "add_bos_token": add}
        _, session = run(server, tasks, "recall_choice", params=params, limit=2)
    firsts = {request.body["prompt"][0][0] == BOS for request in server.requests}
    assert firsts == {add is True}
    notices = [one for one in session.notices if "without the BOS token" in one]
    assert len(notices) == (add is None)
