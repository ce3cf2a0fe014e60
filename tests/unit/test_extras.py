"""Each extra has what it is for, and ``all`` has all that a user may want."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
requirements = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BUILD = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent = {*sys.argv[1].split(",")}
sys.meta_path.insert(0, Absent())
sys.path.insert(0, "tools")
from docs_site import GENERATED
for render in GENERATED.values():
    assert render()
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def brought_by(extra: str) -> set[str]:
    """The packages that are installed with this extra of ours."""
    extras = PROJECT["optional-dependencies"]
    waiting = [(line, "") for line in (*PROJECT["dependencies"], *extras[extra])]
    seen: set[tuple[str, str]] = set()
    while waiting:
        line, of = waiting.pop()
        requirement = requirements.Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": of}):
            continue
        name = normal(requirement.name)
        for part in {"", *requirement.extras} - {part for one, part in seen if one == name}:
            seen.add((name, part))
            own = name == "benchfleet"
            lines = extras.get(part, ()) if own else requires(name) or ()
            waiting += [(line, part) for line in lines]
    return {name for name, _ in seen}


def test_every_page_is_generated_with_what_the_extra_brings() -> None:
    pytest.importorskip("mkdocs")
    brought = brought_by("docs")
    installed = packages_distributions().items()
    absent = [module for module, names in installed if not {*map(normal, names)} & brought]
    assert "torch" in absent
    words = [sys.executable, "-c", BUILD, ",".join(absent)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


LEFT_OUT = {
    "all": "itself",
    "dev": "for those who change benchfleet",
    "docs": "for `make docs`",
    "llama-cpp": "builds llama.cpp",
    "ray": "for clusters, and large",
    "testing": "for authors of plugins",
    "vllm": "needs versions of its own",
}


def test_all_has_every_extra_that_users_may_want() -> None:
    extras = PROJECT["optional-dependencies"]
    waiting, found = ["all"], set[str]()
    while waiting:
        found.add(extra := waiting.pop())
        own = (line for line in extras[extra] if line.startswith("benchfleet["))
        waiting += {one for line in own for one in requirements.Requirement(line).extras} - found
    assert found - {"all"} == {*extras} - {*LEFT_OUT}
