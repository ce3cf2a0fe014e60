"""The page on failures speaks of every stage and kind that there is."""

from __future__ import annotations

import re
from pathlib import Path

from benchfleet.domain.failure import KINDS, STAGES

PAGE = (Path(__file__).parents[3] / "docs" / "failures.md").read_text()


def first_column(title: str) -> list[str]:
    """What the rows of the table under a heading are named."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_every_stage_is_explained() -> None:
    assert first_column("Stages") == list(STAGES)


def test_every_kind_is_explained() -> None:
    assert first_column("Kinds") == list(KINDS)
