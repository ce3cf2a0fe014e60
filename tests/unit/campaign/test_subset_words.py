"""Benchmarks that have a word of their own for subsets."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchfleet.campaign.benchmarks import read_benchmarks
from packages import require

from .reading import mistakes_of, mock_defaults, read

EXAMPLES = Path(__file__).parents[3] / "examples" / "recall"

require("lm_eval")


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


@pytest.mark.slow
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
        ("lm_eval: {task: gsm8k}", "[0].lm_eval", "or is it 'tasks' that you mean?"),
        pytest.param(
            "inspect: {task: sums.py@sums, split: 2}",
            "[0].inspect.split",
            "inspect cannot be split: Inspect runs its task as a whole",
            marks=pytest.mark.skipif(find_spec("inspect_ai") is None, reason="no Inspect here"),
        ),
        (
            "serving: {split: 2}",
            "[0].serving.split",
            "serving cannot be split: its samples depend on each other, or are not known",
        ),
    ],
)
def test_mistakes_are_reported_at_their_keys(item: str, key: str, message: str) -> None:
    entry = read(f"- {item}")
    read_benchmarks(entry, mock_defaults(), EXAMPLES)
    assert message.replace("no folder", "is not a folder") in mistakes_of(entry)[key]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("longbenchv2: [0shot]", "longbench_v2: [0shot]"),
        ("longbenchv2", "longbench_v2"),
        ("ruler32k", "ruler: [32768]"),
        ("ruler16k: [vt, cwe]", "ruler: {subsets: [vt, cwe], lengths: [16384]}"),
        ("ruler16k: {samples: 5}", "ruler: {subsets: [16384], samples: 5}"),
    ],
)
def test_the_names_of_sparse_attention_hub_mean_ours(theirs: str, ours: str) -> None:
    identities = []
    for text in (theirs, ours):
        entry = read(f"- {text}")
        works = [one.workload for one in read_benchmarks(entry, mock_defaults(), EXAMPLES)]
        assert mistakes_of(entry) == {}
        identities.append([(work.label, work.identity()) for work in works if work])
    assert identities[0] == identities[1] != []


@pytest.mark.parametrize(
    "item",
    [
        *("gsm8k", "aime2024", "humaneval", "longbench", "longbench_v2", "mmlu_pro", "babilong"),
        *("ruler", "mmlu_pro: [law]", "lm_eval: {tasks: gsm8k}"),
    ],
)
def test_offline_the_missing_data_of_a_benchmark_are_a_mistake(
    item: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("NLTK_DATA", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    entry = read(f"- {item}")
    read_benchmarks(entry, mock_defaults(), tmp_path)
    (message,) = mistakes_of(entry).values()
    assert "and HF_HUB_OFFLINE is set: fetch it where there is a network" in message
