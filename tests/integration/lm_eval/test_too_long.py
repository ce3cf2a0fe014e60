"""Prompts of lm-eval's tasks that are longer than the model takes."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("task", ["recall_generate", "recall_choice"])
def test_a_prompt_whose_beginning_is_cut_off_is_marked(evaluated: Any, task: str) -> None:
    _, session = evaluated(task, limit=4)
    assert [one.measures["truncated"] for one in session.samples] == [0.0] * 4
    lengths = sorted(one.prompt_tokens for one in session.samples)
    _, session = evaluated(task, limit=4, params={"max_length": lengths[0] - 3})
    assert [one.measures["truncated"] for one in session.samples] == [1.0] * 4
    fits = {"max_length": lengths[-1] + 9}
    _, session = evaluated(task, limit=4, params=fits)
    assert [one.measures["truncated"] for one in session.samples] == [0.0] * 4
