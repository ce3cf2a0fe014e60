"""What integration tests share: being somebody whom permissions stop, and a stage for a runner."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchfleet.ledger.named_queries import load_queries
from benchfleet.ledger.sqlite.file import QUERIES
from stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A runner to be, whose slots do all that they are asked well."""
    return Stage(tmp_path)


@pytest.fixture
def ordinary_user() -> Callable[[Callable[[], object]], str]:
    """Runs an action as somebody who is not root, and tells what it raised."""
    return _as_an_ordinary_user


def _as_an_ordinary_user(action: Callable[[], object]) -> str:
    """What the action raises, as text; root, whom no permission stops, becomes nobody for it."""
    load_queries(QUERIES)  # while we may: nobody may not be let near the repository
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            action()
            output = "nothing was raised"
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent judges it
            output = f"{type(error).__name__}: {error}"
        os.write(writing, output.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    return output
