"""The docs site lists every page once, and nothing that is not there; its examples are YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GENERATED = {
    "reference-campaign.md",
    "reference-cli.md",
    "reference-http.md",
    "reference-python.md",
    "troubleshooting.md",
}


def _pages(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from _pages(value)


def test_the_navigation_lists_every_page_of_docs_once() -> None:
    listed = list(_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    assert len(listed) == len(set(listed))
    docs = ROOT / "docs"
    of_docs = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert of_docs <= set(listed)
    for page in set(listed) - of_docs - GENERATED:
        assert (ROOT / page).is_file(), page


def test_every_yaml_example_of_docs_can_be_read() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for block in re.findall(r"```ya?ml\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            try:
                list(yaml.safe_load_all(block))
            except yaml.YAMLError as error:
                pytest.fail(f"{page.name}: {error}")
