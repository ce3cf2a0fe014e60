"""Searches of folders in which a run makes, renames and removes others."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchfleet.benchmarks.lm_eval.tasks import own_task
from benchfleet.benchmarks.source_files import files_below, matching_files
from benchfleet.results.layout import Layout
from benchfleet.results.read import left_attempts, published_folders, sealed_attempts

# Publishes cells below the folder, one after another, until it is ended.
PUBLISH = """\
import os, sys
from itertools import count
from pathlib import Path
root = Path(sys.argv[1], "results", "study")
for number in count():
    for place in (".attempts", "waiting"):
        attempt = root / place / f"a{number}" / "1-1"
        (attempt / "part").mkdir(parents=True)
        public = root / "model" / f"{place}{number % 50}"
        public.mkdir(parents=True, exist_ok=True)
        (public / "part").is_dir() and (public / "part").rmdir()
        os.rename(attempt, public)
        attempt.parent.rmdir()
    if not number:
        print("going", flush=True)
"""
TASK = "task: choice\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "task.yaml").write_text(TASK)
    (tmp_path / "lib" / "rows.jsonl").write_text("{}\n")
    process = subprocess.Popen(
        [sys.executable, "-c", PUBLISH, str(tmp_path)], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout
        assert process.stdout.readline()
        yield tmp_path
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_folders_that_vanish_during_a_search_do_not_end_it(folder: Path) -> None:
    for _ in range(100):
        assert own_task(folder, "choice") is not None
        (file,) = matching_files(folder, ["**/task.yaml"])
        assert file == folder / "lib" / "task.yaml"


def test_a_second_run_may_begin_while_the_first_publishes(folder: Path) -> None:
    layout = Layout(folder / "results" / "study")
    for _ in range(300):
        assert not list(published_folders(layout.root))  # without a cell.json none is
        assert not sealed_attempts(layout)
        left_attempts(layout)


def test_neither_results_nor_hidden_folders_are_searched(tmp_path: Path) -> None:
    for part in ("a.yaml", "tasks/b.yaml", "out/study/model/c.yaml", ".venv/d.yaml", "tasks/e.txt"):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).write_text("")
    (tmp_path / "out" / "study" / ".attempts").mkdir()
    names = ["a.yaml", "tasks/b.yaml"]
    assert files_below(tmp_path, "*.yaml") == [tmp_path / name for name in names]
    found = matching_files(tmp_path, ["**/*.yaml", ".venv/*", "**/tasks/**/*.yaml"])
    assert sorted(set(found)) == [tmp_path / name for name in (".venv/d.yaml", *names)]
    with pytest.raises(ValueError, match="nothing matches"):
        matching_files(tmp_path, ["**/c.yaml"])


PATTERNS = [
    "**/*.py",
    "./**/*.py",
    "**//*.py",
    "a/**/*.py",
    "*/**/x.py",
    "**/[ab]*/*.py",
    "**/x.py",
]
PATTERNS += ["a/**/b/**/*.py", "**/a/x.py", "a/*.py", "*.py", "**/.hidden/*"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_name_what_they_do_for_a_path(tmp_path: Path, pattern: str) -> None:
    for part in ("x.py", "a/x.py", "a/b/x.py", "a/b/c/b/y.py", "b/a/x.py", ".hidden/z.py", "a/t"):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).write_text("")
    named = {file for file in tmp_path.glob(pattern) if file.is_file()}
    assert named
    matches = matching_files(tmp_path, [pattern])
    assert len(matches) == len(named)
    assert set(matches) == named


@pytest.mark.parametrize("pattern", ["**", "a/**", "**/"])
def test_a_pattern_that_names_no_file_is_refused(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text("")
    with pytest.raises(ValueError, match="nothing matches"):
        matching_files(tmp_path, [pattern])


def test_results_that_are_named_are_found(tmp_path: Path) -> None:
    study = tmp_path / "results" / "first"
    (study / ".attempts").mkdir(parents=True)
    (study / "model").mkdir()
    (study / "model" / "samples.jsonl").write_text("")
    assert matching_files(tmp_path, ["results/first/**/samples.jsonl"])
    with pytest.raises(ValueError, match="nothing matches"):
        matching_files(tmp_path, ["results/**/samples.jsonl"])


def test_an_entry_that_is_no_folder_hides_no_result(tmp_path: Path) -> None:
    cell = tmp_path / "m" / "c" / "b"
    cell.mkdir(parents=True)
    (cell / "cell.json").write_text("{}")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "report.md").write_text("")
    (tmp_path / "wrong").symlink_to("report.md/x")
    assert list(published_folders(tmp_path)) == [cell]


@pytest.mark.timeout(60)
def test_a_search_goes_around_no_circle_of_links(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    for name in ("one", "two", "three"):
        (tmp_path / name).symlink_to(tmp_path)
    assert matching_files(tmp_path, ["**/*.py"]) == [tmp_path / "a.py"]
    assert files_below(tmp_path, "*.py") == [tmp_path / "a.py"]


def test_a_folder_that_cannot_be_listed_for_another_reason_ends_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model" / "config").mkdir(parents=True)
    real = os.scandir

    def failing(
        path: str | Path,
    ) -> object:  # as a network's disk does; no disk here can be made to
        if str(path).endswith("config"):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", failing)
    searches: list[Callable[[], object]] = [
        lambda: files_below(tmp_path, "*"),
        lambda: matching_files(tmp_path, ["**/x"]),
        lambda: list(published_folders(tmp_path)),
    ]
    for search in searches:
        with pytest.raises(OSError, match="Input/output"):
            search()
