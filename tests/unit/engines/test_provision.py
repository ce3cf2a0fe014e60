"""Where things of this machine lie on another one, by name alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.engines.bundles import relocated, short_digest
from benchfleet.engines.provision import mapped_path
from benchfleet.testing.sample_cells import sample_cell

PATHS = {"/models": "/data/all", "/models/llama": "/fast/llama", "/models/llama/8b": "~/8b"}


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("/models/qwen", "/data/all/qwen"),
        ("/models", "/data/all"),
        ("/models/llama/70b/x", "/fast/llama/70b/x"),
        ("/models/llama/8b", "~/8b"),
        ("/models2/qwen", ""),
        ("/other", ""),
        ("/", ""),
    ],
)
def test_the_longest_folder_that_the_inventory_knows_says_where_a_thing_is(
    here: str, there: str
) -> None:
    assert mapped_path(Path(here), PATHS) == there


def test_a_cell_that_moved_is_the_same_cell() -> None:
    cell = sample_cell(source="/here/model", outside={"folder": "/here/study"})
    found = relocated(cell, model="/there/models/1", files="/there/files/2")
    assert found.model.source == "/there/models/1"
    assert found.workload.outside == {"folder": "/there/files/2/here/study"}
    assert found.fingerprint == cell.fingerprint
    assert found.id == cell.id


def test_what_is_no_place_stays_as_it_is() -> None:
    outside = {"folder": "/study", "timeout": 3, "name": "relative/word"}
    cell = sample_cell(source="org/name", outside=outside)
    assert relocated(cell, model="", files="") == cell
    found = relocated(cell, model="", files="/far").workload.outside
    assert found == {"folder": "/far/study", "timeout": 3, "name": "relative/word"}


def test_a_place_that_leaves_its_folder_by_dots_stays_in_what_was_sent() -> None:
    cell = sample_cell(outside={"folder": "/study/../../etc"})
    assert relocated(cell, model="", files="/far").workload.outside == {"folder": "/far/etc"}


def test_a_name_in_the_store_is_one_part_of_a_path_whatever_the_digest_holds() -> None:
    for digest in ("sha256:abc", "../../x", "a/b", ""):
        name = short_digest(digest)
        assert Path(name).name == name
        assert len(name) == 16
    assert short_digest("one") != short_digest("other")
