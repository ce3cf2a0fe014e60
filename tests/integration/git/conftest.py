"""A bare repository, and ledgers in it, each with a mirror of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import Lease, Outcome, RunnerId
from benchfleet.git.objects import Objects
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.testing import sample_cell
from repositories import make_bare

ME = RunnerId("me")
SUCCESS = Outcome(state="success", digest="abc")
CELLS = [sample_cell(number, model=f"model-{number % 7}") for number in range(120)]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return make_bare(tmp_path / "lab.git")


def opened(bare: Path, name: str = "mine", **how: Any) -> GitLedger:
    """Of the machine `name`, which looks at the remote at every verb and waits for nothing."""
    settings = {"campaign": "study", "max_age": 0.0, "timeout": 0.0, **how}
    return GitLedger(f"git+file://{bare}", folder=bare.parent / name, **settings)


def result_of(
    objects: Objects, lease: Lease, outcome: Outcome, path: str = ""
) -> Mapping[str, tuple[str, bool]]:
    """The result of a cell, as a ledger's `files` writes it."""
    return {f"results/{lease.fingerprint}": (objects.blob(b"mine"), False)}
