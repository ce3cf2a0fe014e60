"""Cells of a ledger that this user did not write may not use keys, or start what they like."""

from __future__ import annotations

import pytest

from benchfleet.domain.cell import Model
from benchfleet.models.base import Adapter
from benchfleet.models.served.openai import OpenAIAdapter
from benchfleet.models.served.vllm import VllmAdapter


@pytest.mark.parametrize(
    ("kind", "kwargs", "code"),
    [
        (OpenAIAdapter, {"url": "http://x"}, ""),
        (
            OpenAIAdapter,
            {"url": "http://x", "key": "file:~/.ssh/id"},
            "the key file:~/.ssh/id sent to http://x",
        ),
        (VllmAdapter, {}, ""),
        (VllmAdapter, {"server": {"args": ["--x"]}}, "a server with {'args': ['--x']}"),
        (VllmAdapter, {"server": {"env": {"A": "b"}}}, "a server with {'env': {'A': 'b'}}"),
    ],
)
def test_what_needs_trust_is_named(
    kind: type[Adapter], kwargs: dict[str, object], code: str
) -> None:
    model = Model(name="m", adapter="x", source="s", digest="d", model_kwargs=kwargs)
    assert kind.code(model) == code
