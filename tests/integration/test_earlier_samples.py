"""Which of several earlier attempts the next one goes on after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchfleet.results.samples import earlier_samples


def attempt(folder: Path, name: str, *indices: int) -> None:
    (folder / name).mkdir()
    lines = [json.dumps({"index": index, "of": name}) + "\n" for index in indices]
    (folder / name / "samples.jsonl").write_text("".join(lines))


def of(folder: Path) -> set[str]:
    return {json.loads(line)["of"] for line in earlier_samples(folder).splitlines()}


@pytest.mark.parametrize(
    ("attempts", "last"),
    [
        ({"1-1": [0, 1, 2], "2-2": [0]}, "1-1"),  # which got furthest
        ({"10-12": [0], "9-9": [0], "10-3": [0], "rescored-1": [0], "10-12.1": [0]}, "10-12.1"),
        ({"1-1": [-1, -2, -3], "2-2": [-1, 0]}, "2-2"),  # below 0: for the next attempt alone
        ({"1-1": [-1, -2, -3], "2-2": [-1, 0], "3-3": [-1, 0]}, "3-3"),
    ],
)
def test_the_last_of_those_that_got_furthest_counts(
    tmp_path: Path, attempts: dict[str, list[int]], last: str
) -> None:
    for name, indices in attempts.items():
        attempt(tmp_path, name, *indices)
    assert of(tmp_path) == {last}
