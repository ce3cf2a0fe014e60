"""lm-eval's task files, written to a temporary folder and read without lm-eval."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from benchfleet.benchmarks.lm_eval.tasks import (
    TaskFile,
    built_in_file,
    check_built_in,
    names_in,
    own_task,
    remote_data_of,
)

CHOICE = """
task: choice
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
"""


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder with one task, its data beside it."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "choice.yaml").write_text(CHOICE)
    (folder / "rows.jsonl").write_text('{"q": "a"}\n')
    return folder


def found(folder: Path, name: str = "choice") -> TaskFile:
    task = own_task(folder, name)
    assert task is not None
    return task


def test_a_task_is_found_by_the_name_its_file_says(tasks: Path) -> None:
    task = found(tasks)
    assert (task.file, task.sources) == (tasks / "choice.yaml", (tasks / "choice.yaml",))
    assert task.data == (tasks / "rows.jsonl",)
    assert own_task(tasks, "other") is None
    assert own_task(tasks, "choi") is None


def test_data_are_read_from_beside_the_file_that_names_them(tasks: Path) -> None:
    output = yaml.safe_load(found(tasks).standalone_yaml())
    assert output == {
        "include": str(tasks / "choice.yaml"),
        "task": "choice",
        "dataset_kwargs": {"data_files": {"test": str(tasks / "rows.jsonl")}},
    }


def test_an_included_files_data_lie_beside_it_and_its_content_counts(tasks: Path) -> None:
    inner = tasks / "inner"
    inner.mkdir()
    (inner / "twin.yaml").write_text("include: ../choice.yaml\ntask: twin\n")
    task = found(tasks, "twin")
    assert task.sources == (inner / "twin.yaml", tasks / "choice.yaml")
    assert task.data == (tasks / "rows.jsonl",)
    before = task.digest()
    (tasks / "choice.yaml").write_text(CHOICE + "num_fewshot: 0\n")
    assert found(tasks, "twin").digest() != before


def test_the_digest_follows_the_data_and_not_the_place(tasks: Path) -> None:
    before = found(tasks).digest()
    moved = tasks.rename(tasks.with_name("elsewhere"))
    assert found(moved).digest() == before
    (moved / "unrelated.yaml").write_text("task: unrelated\n")
    assert found(moved).digest() == before
    (moved / "rows.jsonl").write_text('{"q": "b"}\n')
    assert found(moved).digest() != before


def test_the_code_beside_a_task_with_functions_enters_its_digest(tasks: Path) -> None:
    (tasks / "utils.py").write_text("def text(doc): return doc['q']\n")
    assert found(tasks).sources == (tasks / "choice.yaml",)
    (tasks / "choice.yaml").write_text(CHOICE + "doc_to_text: !function utils.text\n")
    before = found(tasks).digest()
    assert found(tasks).sources == (tasks / "choice.yaml", tasks / "utils.py")
    (tasks / "utils.py").write_text("def text(doc): return doc['q'] + '?'\n")
    assert found(tasks).digest() != before


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ("data_files: rows.jsonl", ["rows.jsonl"]),
        ("data_files: {train: [more/a.jsonl], test: rows.jsonl}", ["more/a.jsonl", "rows.jsonl"]),
        ("data_files: {test: 'more/*.jsonl'}", ["more/a.jsonl", "more/b.jsonl"]),
        ("data_dir: more", ["more/a.jsonl", "more/b.jsonl"]),
        ("data_files: {test: 'hf://datasets/someone/rows/a.jsonl'}", []),
    ],
)
def test_files_lists_patterns_folders_and_addresses_are_distinguished(
    tasks: Path, kwargs: str, expected: list[str]
) -> None:
    (tasks / "more").mkdir()
    for name in ("a", "b"):
        (tasks / "more" / f"{name}.jsonl").write_text(f'{{"q": "{name}"}}\n')
    text = f"task: choice\ndataset_path: json\ndataset_kwargs: {{{kwargs}}}\n"
    (tasks / "choice.yaml").write_text(text)
    assert found(tasks).data == tuple(tasks / name for name in expected)


def test_a_local_data_set_is_a_folder_and_one_of_the_hub_is_left_to_it(tasks: Path) -> None:
    (tasks / "choice.yaml").write_text("task: choice\ndataset_path: ./set\n")
    (tasks / "set").mkdir()
    (tasks / "set" / "test.jsonl").write_text("{}\n")
    task = found(tasks)
    assert task.data == (tasks / "set" / "test.jsonl",)
    assert task.dataset == {"dataset_path": str(tasks / "set")}
    (tasks / "choice.yaml").write_text(
        "task: choice\ndataset_path: someone/rows\ndataset_kwargs: {data_files: rows.jsonl}\n"
    )
    assert (found(tasks).data, found(tasks).dataset) == ((), {})
    assert (task.remote, str(found(tasks).remote)) == (None, "someone/rows")


def test_the_first_file_by_path_has_the_name_as_in_lm_eval(tasks: Path) -> None:
    (tasks / "another.yaml").write_text("task: choice\ndataset_path: someone/rows\n")
    assert found(tasks).file == tasks / "another.yaml"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (CHOICE.replace("rows", "gone"), "its data are not there: .*gone.jsonl"),
        ("task: choice\ninclude: choice.yaml\n", "includes itself"),
        ("task: choice\ninclude: gone.yaml\n", "gone.yaml cannot be read"),
        ("task: choice: x\n", "is not YAML"),
        ("- choice\n", "it must be a mapping"),
    ],
)
def test_a_task_that_cannot_be_used_is_reported_with_its_file(
    tasks: Path, text: str, wrong: str
) -> None:
    (tasks / "choice.yaml").write_text(text)
    with pytest.raises(ValueError, match=wrong):
        own_task(tasks, "choice")


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a folder; let include_path name"):
        own_task(tmp_path / "gone", "choice")


@pytest.mark.slow
def test_lm_evals_own_tasks_are_known_by_name() -> None:
    pytest.importorskip("lm_eval")
    assert check_built_in("gsm8k") is None
    assert check_built_in("niah_single_1") is None
    assert "did you mean 'gsm8k'" in (check_built_in("gsm8kk") or "")


@pytest.mark.slow
def test_the_file_and_data_of_lm_evals_own_tasks_are_found() -> None:
    pytest.importorskip("lm_eval")
    file = built_in_file("gsm8k")
    assert file is not None
    assert file.parts[-2:] == ("gsm8k", "gsm8k.yaml")
    assert built_in_file("mmlu") is None
    assert built_in_file("gsm8kk") is None
    assert str(remote_data_of("arc_easy", None)) == "allenai/ai2_arc (config ARC-Easy)"
    assert remote_data_of("mmlu", None) is None


@pytest.mark.parametrize("name", ["gsm8k", "longbench_qasper", "mmlu_pro_biology", "ifeval"])
def test_a_task_is_looked_for_in_its_own_folder_first(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """There are 14,000 files, and a plan asks for the tasks of many cells at once."""
    pytest.importorskip("lm_eval")
    read: list[Path] = []

    def noted(file: Path) -> list[tuple[str, str]]:
        read.append(file)
        return names_in(file)

    monkeypatch.setattr("benchfleet.benchmarks.lm_eval.tasks.names_in", noted)
    file = built_in_file.__wrapped__(name)
    assert file is not None
    assert len({one.parent for one in read}) == 1
    assert read[-1] == file


def test_a_broken_file_that_only_mentions_a_task_does_not_block_it(tasks: Path) -> None:
    (tasks / "a_draft.yaml").write_text("task: draft: choice\n")
    assert found(tasks).file == tasks / "choice.yaml"


def test_a_broken_file_with_a_longer_name_in_it_does_not_hide_a_misspelt_one(tasks: Path) -> None:
    (tasks / "a_broken.yaml").write_text("task: [choice_long")
    assert own_task(tasks, "choice_lon") is None
