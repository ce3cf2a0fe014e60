"""Benchmarks by name in parts: together they leave the samples and the score of the whole cell."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import benchmark_rows as rows

from .conftest import answered, compare_parts

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("name", "limit"), [("gsm8k", 5), ("mmlu_pro", 1)])
def test_daily_benchmarks(llama: Any, tmp_path: Path, name: str, limit: int) -> None:
    """With few-shot examples; mmlu_pro has 14 tasks, which the cuts do not respect."""
    params = {"data": str(rows.write(tmp_path, rows.DAILY[name][1]))}
    generation = {"max_new_tokens": 8}
    run = partial(answered, name, llama, None, params, limit=limit, generation=generation)
    compare_parts(run, 3)
