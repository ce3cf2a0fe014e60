"""Sessions of the serving benchmark on an adapter of the simulated server, and its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Model
from benchfleet.models.served.ollama import OllamaAdapter
from benchfleet.models.served.openai import OpenAIAdapter
from benchfleet.testing.simulated_server import DIGEST, SimulatedServer
from kept_sessions import KeptSession

QUICK = {"calibrate": False, "input_tokens": 30, "output_tokens": 8}
_TIMES = {"duration": "20s", "point": "1s"}  # the load grows for a twentieth of the duration
SEARCH = {**QUICK, **_TIMES, "search": "concurrency", "under": "slo", "slo": {"ttft": "10s"}}


@contextmanager
def session_of(
    server: SimulatedServer, folder: Path, *, ollama: bool = False, **more: Any
) -> Iterator[KeptSession]:
    """A session whose adapter asks this server, by one of its two protocols."""
    kind, path = (OllamaAdapter, "") if ollama else (OpenAIAdapter, "/v1")
    model = Model(
        name="m",
        adapter="openai",
        source=server.model,
        digest=f"ollama:{DIGEST}",
        model_kwargs={"url": server.url + path},
    )
    adapter = kind(model)
    adapter.load()
    try:
        yield KeptSession(adapter=adapter, model=model, subset="x", scratch=folder, **more)
    finally:
        adapter.unload()
