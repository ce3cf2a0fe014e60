"""``benchfleet archive`` and ``gc`` as a person has them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from .conftest import User

STUDY = """\
campaign: study
matrix:
  models: [{{name: m1, adapter: mock}}, {{name: m2, adapter: mock}}]
  configs: {{dense: null}}
  benchmarks: [_hostile: {{act: raise, at: 2, once: {once}}}]
"""


@pytest.fixture
def study(user: User) -> User:
    """A campaign whose first cell failed once and was tried again, half a year ago."""
    user.write(STUDY.format(once=user.folder / "once"))
    user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    user.run("retry", "study.yaml")
    user.run("run", "study.yaml")
    for place, _, files in os.walk(user.results / ".attempts"):
        for name in ("", *files):
            os.utime(Path(place, name), (time.time() - 180 * 86400,) * 2)
    return user


def attempts(user: User) -> list[Path]:
    return list((user.results / ".attempts").glob("*/*"))


def test_old_attempts_are_shown_then_packed_and_nothing_else_changes(study: User) -> None:
    before = study.published()
    shown = study.run("archive", "study.yaml").stdout
    assert "study: 1 thing to archive" in shown
    assert "m1/dense/_hostile 1-1" in shown
    assert "with the same command and --yes" in shown
    assert len(attempts(study)) == 1
    assert "archived 1 thing" in study.run("archive", "study.yaml", "--yes").stdout
    assert attempts(study) == []
    assert len(list((study.results / ".archive").rglob("1-1.tar.gz"))) == 1
    assert study.published() == before
    study.run("verify", "study.yaml")
    study.run("rescore", "study.yaml", "--all")
    study.run("report", "study.yaml")
    assert "nothing to archive" in study.run("archive", "study.yaml", "--yes").stdout
    refused = study.run("archive", "study.yaml", "--to", "benchmark_results", code=2)
    assert "lies among the results" in refused.stderr


def test_gc_deletes_what_is_old_and_large_enough(study: User) -> None:
    too_large = ("--larger-than", "1GB", "--yes")
    assert "nothing to delete" in study.run("gc", "study.yaml", *too_large).stdout
    young = ("--older-than", "400d", "--yes")
    assert "nothing to delete" in study.run("gc", "study.yaml", *young).stdout
    log = study.results / ".slots" / "slot-1.log"
    log.write_text("what it printed between cells")
    found = study.json("gc", "study.yaml", "--yes")
    assert [one["name"] for one in found["things"]] == ["m1/dense/_hostile 1-1"]
    found_too = study.json("gc", "study.yaml", "--older-than", "0", "--yes")
    assert [one["name"] for one in found_too["things"]] == ["slot-1.log"]
    assert found["freed"] > 0
    assert attempts(study) == []
    study.run("verify", "study.yaml")


def test_one_attempt_that_stays_is_counted_as_one(user: User) -> None:
    user.write(STUDY.format(once=user.folder / "once"))
    user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    output = user.run("archive", "study.yaml", "--older-than", "0").stdout
    assert "left alone: 1 attempt that a retry goes on from" in output


def test_what_is_wrongly_asked_is_refused(user: User) -> None:
    user.write(STUDY.format(once=""))
    for words, output in (
        (("--what", "results"), "invalid kind 'results': use some of attempts, raw, logs"),
        (("--older-than", "30"), "'30' is not a time; write 30h, 30m or 30s, or 30d"),
        (("--larger-than", "100"), "'100' is not a size; write 100GB"),
        ((), "study has not run yet, so nothing is old"),
    ):
        assert output in user.run("gc", "study.yaml", *words, code=2).stderr
