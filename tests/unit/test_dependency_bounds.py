"""Each dependency has a lowest version, and the kept pins fit pyproject.toml on every Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = import_module(
    "tomllib" if sys.version_info >= (3, 11) else "tomli"
).loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
NOT_LOWEST = {"dev", "docs", "inspect", "llama-cpp", "vllm"}  # see LOWEST_EXTRAS in the Makefile


def _needed(*without: str) -> Iterator[Requirement]:
    lists = [PROJECT["dependencies"], *(EXTRAS[name] for name in EXTRAS if name not in without)]
    needed = (Requirement(line) for one in lists for line in one)
    return (one for one in needed if one.name != "benchfleet")


def _pins(name: str, python: str) -> dict[str, str]:
    """The pinned versions in a constraints file, for one version of Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    pins: dict[str, str] = {}
    for line in (ROOT / name).read_text("utf-8").splitlines():
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate(environment):
            assert canonicalize_name(one.name) not in pins, line
            pins[canonicalize_name(one.name)] = str(one.specifier).removeprefix("==")
    return pins


def test_each_dependency_of_users_has_a_lowest_version() -> None:
    for one in _needed("dev"):
        assert any(bound.operator == ">=" for bound in one.specifier), one


def test_the_lowest_versions_are_pinned_and_allowed() -> None:
    pins = _pins("constraints-lowest.txt", "3.10")
    for one in _needed(*NOT_LOWEST):
        assert pins[canonicalize_name(one.name)] in one.specifier, one


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_each_dependency_is_pinned_once_for_each_python(python: str) -> None:
    pins = _pins("constraints.txt", python)
    for one in _needed("llama-cpp", "vllm", "rent"):
        if one.marker is None or one.marker.evaluate({"python_version": python}):
            assert pins[canonicalize_name(one.name)] in one.specifier, one
