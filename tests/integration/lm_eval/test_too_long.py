"""Prompts of lm-eval's tasks that are longer than the model takes."""

from __future__ import annotations

from pathlib import Path
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


def test_the_length_of_an_answer_counts_by_its_other_names_too(evaluated: Any, tasks: Path) -> None:
    (tasks / "other_name.yaml").write_text(
        "include: recall_generate.yaml\n"
        "task: other_name\n"
        "generation_kwargs: {max_tokens: 5, do_sample: false}\n"
    )
    _, session = evaluated("other_name", limit=4)
    longest = max(one.prompt_tokens for one in session.samples)
    for room, truncated in ((longest + 5, 0.0), (longest + 4, 1.0)):
        _, session = evaluated("other_name", limit=4, params={"max_length": room})
        found = {one.prompt_tokens: one.measures["truncated"] for one in session.samples}
        assert found[longest] == truncated
