"""An empty queue of commands that stand for Slurm's own, and what a user submits to it."""

from __future__ import annotations

import os

import pytest

from fake_slurm import FakeSlurm
from repositories import make_bare

from .conftest import MOCK, User

AT = ("study.yaml", "--ledger", "git+file:lab.git")
TIME = ("--time", "1:00:00")
SUBMIT = ("slurm", "submit", *AT, *TIME, "--work=--cpu-slots 1")


def empty_queue(user: User, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """An empty queue, and a campaign of ten cells."""
    fake = FakeSlurm(user.folder / "bin")
    fake.install()
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    make_bare(user.folder / "lab.git")
    user.write(MOCK + "defaults: {repeats: 5}\n")
    return fake
