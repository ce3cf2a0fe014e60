"""Skipping a module whose optional package is not installed, without importing the package."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def require(name: str) -> None:
    """Skip the module that calls this, unless the package is there. An import of it would take
    seconds in every test process."""
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)
