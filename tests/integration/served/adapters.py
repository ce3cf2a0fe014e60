"""Adapters of served models that are loaded, and what they are asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchfleet.domain.cell import Model
from benchfleet.models.base import Adapter, Prompt
from benchfleet.models.served.openai import OpenAIAdapter
from benchfleet.testing.simulated_server import SimulatedServer

GREEDY = {"max_new_tokens": 4, "seed": 1}
PROMPTS = [Prompt(context=f"text {n} ", question="why?") for n in range(20)]


@contextmanager
def loaded(kind: type[Adapter], server: SimulatedServer, **settings: Any) -> Iterator[Adapter]:
    url = server.url + ("/v1" if kind is OpenAIAdapter else "")
    kwargs = {"url": url, **settings}
    model = Model(
        name="m",
        adapter="openai",
        source=server.model,
        digest=kind.identify(server.model, kwargs),
        model_kwargs=kwargs,
    )
    adapter = kind(model)
    try:
        adapter.load()
        yield adapter
    finally:
        adapter.unload()
