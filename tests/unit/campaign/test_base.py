from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.campaign.base import Campaign, absolute, results_folder
from benchfleet.domain.matrix import Matrix


def test_the_results_folder_bears_the_sanitised_name() -> None:
    folder = results_folder(Path("/study"), "./results", "a/b: c")
    assert folder == Path("/study/results/a_b_ c")


def test_other_results_start_at_the_current_folder() -> None:
    campaign = Campaign(
        name="demo",
        file=Path("/study/c.yaml"),
        results=Path("/study/results/demo"),
        matrix=Matrix(models=(), configs=(), workloads=()),
    )
    moved = campaign.with_results("elsewhere")
    assert moved.results == Path.cwd() / "elsewhere" / "demo"
    assert campaign.with_results("/abs").results == Path("/abs/demo")
    assert (moved.name, moved.file, moved.matrix) == (campaign.name, campaign.file, campaign.matrix)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("a", "/s/a"), ("./a/../b", "/s/b"), ("/a", "/a"), ("~", str(Path.home()))],
)
def test_a_path_is_absolute_from_its_start(path: str, expected: str) -> None:
    assert absolute(Path("/s"), path) == Path(expected)
