from __future__ import annotations

import pytest

from benchfleet.campaign.source import KeyPath, Source, dotted


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("matrix", "models", 2, "needs", "vram"), "matrix.models[2].needs.vram"),
        (("matrix", "configs", "top-10%", "attention", 0), "matrix.configs.top-10%.attention[0]"),
        (("configs", "qwen2.5", "attention"), "configs.'qwen2.5'.attention"),
        (("configs", ""), "configs.''"),
        (("configs", "a\nb"), "configs.'a\\nb'"),
    ],
)
def test_a_path_is_dotted_as_people_write_it(path: KeyPath, text: str) -> None:
    assert dotted(path) == text


def test_a_value_without_a_line_of_its_own_has_the_line_around_it() -> None:
    source = Source(data={}, lines={(): 1, ("matrix",): 3})
    assert source.line(("matrix", "models", 2)) == 3
    assert source.line(("campaign",)) == 1


def test_a_source_without_lines_has_none() -> None:
    assert Source(data={}).line(("campaign",)) is None
