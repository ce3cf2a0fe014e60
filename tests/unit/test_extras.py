"""The extra ``all`` has all that a user may want."""

from __future__ import annotations

from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
requirements = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

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


def test_the_extra_for_mlflow_opens_its_databases() -> None:
    """mlflow-skinny alone takes servers, and no ``sqlite:///runs.db``."""
    lines = PROJECT["optional-dependencies"]["mlflow"]
    assert {"SQLAlchemy", "alembic"} <= {requirements.Requirement(line).name for line in lines}
