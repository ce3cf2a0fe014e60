"""What tests of every kind share: hosts, a PostgreSQL server, and how they run side by side."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

import hypothesis
import pytest

from postgres import Postgres, shared_postgres
from sshd import Sshd

# Tests start processes by the thousand, and each would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests run side by side: threads of torch that spin while they wait take cores from others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A shell without job control starts what runs in the background with SIGINT ignored, and nohup
# ignores SIGHUP. Every process that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A machine that does other things too is slow; `timeout` in pyproject.toml bounds every test.
EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "50"))  # of a property; `make soak` draws more
hypothesis.settings.register_profile("patient", deadline=None, max_examples=EXAMPLES)
hypothesis.settings.load_profile("patient")


# What tests import and pytest collects is a million objects, which stay. Searches for garbage among
# them would take a third of the time of some tests.
gc.disable()


def pytest_collection_finish() -> None:
    _freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """After each file, what its tests imported stays too."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        _freeze()
    return result


def _freeze() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For ``-n auto`` three processes more than cores, since many tests wait; unit tests do not."""
    more = 0 if config.option.numprocesses == "logical" else 3
    return (os.cpu_count() or 1) + more


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running server for the whole session; each test takes a campaign of another name."""
    server = shared_postgres()
    yield server
    server.remove()
    shared_postgres.cache_clear()


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A running server for one test, which may do to it what it likes."""
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.remove()
