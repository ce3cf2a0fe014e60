"""Campaigns that share a result cache, and their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .conftest import User

CAMPAIGN = """\
campaign: {name}
result_cache: {cache}
matrix:
  models: [{{name: m, adapter: mock, model_kwargs: {{answer: Ada Brandt}}}}]
  configs: {{dense: null, {config}: {{settings: {{size: 8}}}}}}
  benchmarks: [mock_benchmark]
"""


def write(user: User, name: str, cache: Path | str, *, config: str = "window") -> str:
    """Write a campaign and return its file's name."""
    url = cache.as_uri() if isinstance(cache, Path) else cache
    user.write(CAMPAIGN.format(name=name, cache=url, config=config), f"{name}.yaml")
    return f"{name}.yaml"


def results(user: User, name: str) -> Path:
    return user.folder / "benchmark_results" / name


def cell_json(user: User, name: str, path: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((results(user, name) / path / "cell.json").read_bytes())
    return content
