"""Benchmarks that have a word of their own for subsets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchfleet.campaign.benchmarks import read_benchmarks

from .reading import mistakes_of, mock_defaults, read

EXAMPLES = Path(__file__).parents[3] / "examples" / "recall"

pytest.importorskip("lm_eval")


@pytest.mark.parametrize("word", ["tasks", "subsets"])
def test_tasks_are_the_subsets_of_lm_eval(word: str) -> None:
    entry = read(f"- lm_eval: {{{word}: [recall_choice, recall_generate], include_path: tasks}}")
    declared = read_benchmarks(entry, mock_defaults(), EXAMPLES)
    assert mistakes_of(entry) == {}
    works = [one.workload for one in declared if one.workload]
    assert [work.label for work in works] == ["lm_eval_recall_choice", "lm_eval_recall_generate"]
    assert all(work.data_digest for work in works)
    assert "tasks" not in works[0].params
    assert str(EXAMPLES) not in str(works[0].identity())


def test_a_group_of_tasks_is_one_workload_for_each(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "tasks", tmp_path / "tasks")
    group = "group: both\ntask: [recall_choice, recall_generate]\n"
    (tmp_path / "tasks" / "both.yaml").write_text(group)
    entry = read("- lm_eval: {tasks: both, include_path: tasks}")
    works = [one.workload for one in read_benchmarks(entry, mock_defaults(), tmp_path)]
    assert mistakes_of(entry) == {}
    names = ["lm_eval_recall_choice", "lm_eval_recall_generate"]
    assert [work.label for work in works if work] == names


def test_both_words_at_once_are_a_mistake() -> None:
    entry = read("- lm_eval: {tasks: gsm8k, subsets: gsm8k}")
    read_benchmarks(entry, mock_defaults(), EXAMPLES)
    assert mistakes_of(entry) == {
        "[0].lm_eval.tasks": "stands beside 'subsets', which says the same here; remove one"
    }


@pytest.mark.parametrize(
    ("item", "key", "message"),
    [
        ("lm_eval", "[0]", "names no task; write tasks: [gsm8k], one cell for each"),
        ("lm_eval: {tasks: recall_choice, include_path: gone}", "[0].lm_eval.tasks", "no folder"),
        ("recall: {tasks: 128}", "[0].recall", "no parameter 'tasks'"),
    ],
)
def test_mistakes_are_reported_at_their_keys(item: str, key: str, message: str) -> None:
    entry = read(f"- {item}")
    read_benchmarks(entry, mock_defaults(), EXAMPLES)
    assert message.replace("no folder", "is not a folder") in mistakes_of(entry)[key]
