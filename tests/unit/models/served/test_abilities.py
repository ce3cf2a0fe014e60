"""What the answers of a server show that it can do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from benchfleet.models.served.abilities import probe_abilities
from benchfleet.models.served.client import Client
from benchfleet.models.served.protocol import OpenAI


class Said:
    """A client whose server gives one stream to every request."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def post_text(self, path: str, body: Mapping[str, Any]) -> str:
        return self._stream


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_chunk_may_hold_any_mark_that_ends_a_line_elsewhere(end: str) -> None:
    text = "Yes\u2028or\u0085no"
    tokens = {"content": [{"token": text, "logprob": -0.5}]}
    choice = {"index": 0, "delta": {"content": text}, "logprobs": tokens}
    chunk = json.dumps({"choices": [choice]}, ensure_ascii=False)
    said = Said(f"data: {chunk}{end}{end}data: [DONE]{end}{end}")
    abilities = probe_abilities(cast(Client, said), OpenAI("m", {}))
    assert abilities["logprobs"]
    assert abilities["done"]
