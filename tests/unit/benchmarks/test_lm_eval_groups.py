"""Groups and tags of lm-eval stand for their tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.benchmarks.lm_eval.benchmark import LmEval

CHOICE = "dataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three tasks of our own, two of them with a tag."""
    (tmp_path / "rows.jsonl").write_text('{"q": "a"}\n')
    for name, tag in (("red", "colour"), ("blue", "colour"), ("round", "")):
        text = f"task: {name}\n{CHOICE}" + (f"tag: {tag}\n" if tag else "")
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def benchmark(folder: Path) -> LmEval:
    return LmEval({"folder": str(folder), "include_path": "."})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("[red, round]", ["red", "round"]),
        ("colour", ["blue", "red"]),
        ("[colour, round, red]", ["blue", "red", "round"]),
        (
            "[{group: inner, task: [round, {task: red, task_alias: r}]}, blue]",
            ["round", "red", "blue"],
        ),
    ],
)
def test_a_group_is_its_tasks_each_once(folder: Path, listed: str, expected: list[str]) -> None:
    (folder / "all.yaml").write_text(f"group: all\ntask: {listed}\n")
    assert list(benchmark(folder).expand_subset("all")) == expected
    assert list(benchmark(folder).expand_subset("red")) == ["red"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("[{task: red, num_fewshot: 2}]", "changes the settings of 'red'; name the tasks"),
        ("[red, all]", "the group 'all' holds itself"),
    ],
)
def test_a_group_that_is_more_than_its_tasks_says_so(
    folder: Path, listed: str, message: str
) -> None:
    (folder / "all.yaml").write_text(f"group: all\ntask: {listed}\n")
    assert benchmark(folder).expand_subset("all") == ["all"]
    assert message in (benchmark(folder).check_subset("all") or "")


@pytest.mark.slow
def test_groups_of_lm_eval_are_their_tasks(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    names = benchmark(tmp_path).expand_subset("mmlu")
    assert len(names) == 57
    assert "mmlu_anatomy" in names
    assert "cola" in benchmark(tmp_path).expand_subset("glue")


@pytest.mark.slow
def test_ones_own_tasks_are_suggested(folder: Path) -> None:
    assert "did you mean 'round'" in (benchmark(folder).check_subset("rond") or "")
