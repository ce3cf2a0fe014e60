"""A file of another place is fetched once for a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.benchmarks.lm_eval.url_file import UrlFile, fetch


def test_a_file_that_was_fetched_is_here(tmp_path: Path) -> None:
    origin = tmp_path / "dev-v2.0.json"
    origin.write_text("{}")
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    one = UrlFile(origin.as_uri())
    assert not one.is_here(environ)
    fetch(one.url, one.cached(environ))
    assert one.is_here(environ)
    assert one.cached(environ).read_text() == "{}"
    assert [file.name for file in one.cached(environ).parent.iterdir()] == [origin.name]


def test_a_fetch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "files" / "absent.json"
    with pytest.raises(OSError, match=r"absent\.json"):
        fetch((tmp_path / "absent.json").as_uri(), file)
    assert not list(file.parent.iterdir())
