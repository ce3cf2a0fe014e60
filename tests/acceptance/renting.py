"""A campaign that rents one machine at a time, at a simulated provider with a real sshd."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rented_machines import KEY, RealCloud, real_cloud

from .conftest import MOCK as STUDY
from .conftest import User

RUN = ["run", "study.yaml", "--machines", "machines.yaml", "--rent"]


@contextmanager
def renting(
    user: User, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealCloud]:
    """A user with a campaign, and an inventory that rents one machine at a time."""
    monkeypatch.setenv("VAST_API_KEY", KEY)
    with real_cloud(lambda: tmp_path_factory.mktemp("rented")) as cloud:
        user.write(STUDY)
        (user.folder / "machines.yaml").write_text(
            f"providers: {{vast: {{url: '{cloud.url}', visible_within: 1s}}}}\n"
            f"rent:\n"
            f"  - {{name: r4090, gpu: RTX 4090, max_price: 0.60 USD/h,\n"
            f"     cpu_slots: 1, python: {sys.executable}}}\n"
        )
        yield cloud
