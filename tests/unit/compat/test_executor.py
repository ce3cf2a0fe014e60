"""What an executor says of itself, and of the arguments that it is made with."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchfleet
from benchfleet import BenchmarkExecutor, CampaignError


def _mistakes(**arguments: Any) -> dict[str, str]:
    given = {"gpu_ids": [], "max_concurrent_runs": 1, **arguments}
    with pytest.raises(CampaignError) as caught:
        BenchmarkExecutor(**given)
    return {mistake.key: mistake.message for mistake in caught.value.mistakes}


def test_it_keeps_what_it_is_given_as_plain_values() -> None:
    executor = BenchmarkExecutor(np.array([1, 0]), np.int64(4), Path("/results"))  # type: ignore[arg-type]
    assert executor.gpu_ids == (1, 0)
    assert type(executor.gpu_ids[0]) is int
    assert executor.max_concurrent_runs == 4
    assert executor.base_result_dir == Path("/results")


def test_a_relative_folder_is_the_one_seen_when_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert BenchmarkExecutor([], 1).base_result_dir == tmp_path / "benchmark_results"


@pytest.mark.parametrize(
    ("argument", "value", "key", "part"),
    [
        ("gpu_ids", "01", "gpu_ids", "list of GPU ids"),
        ("gpu_ids", 0, "gpu_ids", "list of GPU ids"),
        ("gpu_ids", None, "gpu_ids", "[] for the CPU"),
        ("gpu_ids", [0, -1], "gpu_ids[1]", "not -1"),
        ("gpu_ids", [True], "gpu_ids[0]", "not True"),
        ("gpu_ids", [3, 3], "gpu_ids[1]", "GPU 3 stands twice"),
        ("max_concurrent_runs", 0, "max_concurrent_runs", "1 or more, not 0"),
        ("max_concurrent_runs", 1.5, "max_concurrent_runs", "whole number"),
        ("max_concurrent_runs", True, "max_concurrent_runs", "not True"),
        ("base_result_dir", "", "base_result_dir", "not ''"),
        ("base_result_dir", "s3://bucket/x", "base_result_dir", "folder of this machine"),
        ("base_result_dir", None, "base_result_dir", "not None"),
        ("ledger", "mysql://host/db", "ledger", "no ledger 'mysql'"),
        ("ledger", 3, "ledger", "text"),
        ("progress", 3, "progress", "to call"),
        ("timeout_per_benchmark", 0, "timeout_per_benchmark", "seconds above 0, not 0"),
        ("timeout_per_benchmark", float("inf"), "timeout_per_benchmark", "not inf"),
        ("timeout_per_benchmark", "1h", "timeout_per_benchmark", "not '1h'"),
        ("enable_resumability", False, "enable_resumability", "another base_result_dir"),
        (
            "required_result_files",
            ["metrics.json", "own.csv"],
            "required_result_files",
            "'own.csv'",
        ),
        ("required_result_files", 3, "required_result_files", "no 3"),
    ],
)
def test_a_wrong_argument_is_named(argument: str, value: Any, key: str, part: str) -> None:
    found = _mistakes(**{argument: value})
    assert list(found) == [key]
    assert part in found[key]


def test_all_wrong_arguments_are_reported_at_once() -> None:
    found = _mistakes(gpu_ids=[-1], max_concurrent_runs=0, base_result_dir="", ledger=1, progress=1)
    assert list(found) == [
        "gpu_ids[0]", "max_concurrent_runs", "base_result_dir", "ledger", "progress",
    ]  # fmt: skip


def test_the_public_names_are_sorted_and_there() -> None:
    assert benchfleet.__all__ == sorted(benchfleet.__all__)
    for name in benchfleet.__all__:
        assert getattr(benchfleet, name).__name__ == name
        assert name in dir(benchfleet)


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'BenchmarkExecuter'"):
        benchfleet.BenchmarkExecuter  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    stub = Path(benchfleet.__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
    tree = ast.parse(stub)
    imported = {
        f"{node.module}:{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {f"{home}:{name}" for name, home in vars(benchfleet)["_HOMES"].items()}
    (listed,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    assert listed == benchfleet.__all__
