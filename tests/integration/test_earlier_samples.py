"""Which of several earlier attempts the next one goes on after."""

from __future__ import annotations

import json
from pathlib import Path

from benchfleet.results.samples import earlier_samples


def attempt(folder: Path, name: str, *indices: int) -> None:
    (folder / name).mkdir()
    lines = [json.dumps({"index": index, "of": name}) + "\n" for index in indices]
    (folder / name / "samples.jsonl").write_text("".join(lines))


def of(folder: Path) -> set[str]:
    return {json.loads(line)["of"] for line in earlier_samples(folder).splitlines()}


def test_the_attempt_that_got_furthest_counts(tmp_path: Path) -> None:
    attempt(tmp_path, "1-1", 0, 1, 2)
    attempt(tmp_path, "2-2", 0)
    assert of(tmp_path) == {"1-1"}


def test_of_attempts_that_got_as_far_the_last_counts(tmp_path: Path) -> None:
    for name in ("10-12", "9-9", "2-2", "10-3", "rescored-1", "10-12.1"):
        attempt(tmp_path, name, 0, 1)
    assert of(tmp_path) == {"10-12.1"}


def test_what_is_kept_for_the_next_attempt_alone_is_no_progress(tmp_path: Path) -> None:
    attempt(tmp_path, "1-1", -1, -2, -3)
    attempt(tmp_path, "2-2", -1, 0)
    assert of(tmp_path) == {"2-2"}
    attempt(tmp_path, "3-3", -1, 0)
    assert of(tmp_path) == {"3-3"}
