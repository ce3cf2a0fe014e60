"""The "add one" recipe of a family's README, and what it makes, laid out as installed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from benchfleet import registry


class Recipe:
    """What the README of a family says."""

    def __init__(self, family: ModuleType) -> None:
        """It has six steps at most."""
        self.text = Path(*family.__path__, "README.md").read_text("utf-8")
        steps = re.findall(r"^(\d+)\. ", self.text, re.MULTILINE)
        assert steps == [str(number) for number in range(1, len(steps) + 1)]
        assert 1 <= len(steps) <= 6

    def block(self, language: str) -> str:
        """The one fenced block of that language, without the indent of its step."""
        pattern = rf"^   ```{language}\n(.*?)^   ```$"
        (found,) = re.findall(pattern, self.text, re.DOTALL | re.MULTILINE)
        return re.sub("^   ", "", found, flags=re.MULTILINE)

    @contextmanager
    def installed(self, folder: Path) -> Iterator[None]:
        """Its module and entry point, laid out in `folder` as an installer would."""
        output = self.block("toml")
        (section,) = re.findall(r'^\[project\.entry-points\."(.+)"\]$', output, re.MULTILINE)
        ((name, place),) = re.findall(r'^([\w-]+) = "(.+)"$', output, re.MULTILINE)
        module = place.partition(":")[0]
        (folder / f"{module}.py").write_text(self.block("python"), encoding="utf-8")
        marks = folder / f"{module}-1.0.dist-info"
        marks.mkdir()
        (marks / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (marks / "entry_points.txt").write_text(f"[{section}]\n{name} = {place}\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(folder)
            registry._entry_points.cache_clear()
            try:
                yield
            finally:
                registry._entry_points.cache_clear()
                sys.modules.pop(module, None)
