"""What tests of every kind share: hosts to reach over SSH."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sshd import Sshd


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A running sshd for the whole session; a test leaves it as it found it."""
    yield from _running(Sshd(tmp_path_factory.mktemp("sshd")))


@pytest.fixture
def own_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A running sshd for one test, which may do to it what it likes."""
    yield from _running(Sshd(tmp_path_factory.mktemp("own-sshd")))


def _running(sshd: Sshd) -> Iterator[Sshd]:
    try:
        sshd.start()
        yield sshd
    finally:
        sshd.kill()
