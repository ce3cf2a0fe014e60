"""The check of a host that answers."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from bare_machine import facts_of
from benchfleet.cli.verbs import hosts_check
from benchfleet.domain.host import Host
from benchfleet.engines.openssh import OpenSsh
from benchfleet.engines.ssh_command import Answer

SSH = OpenSsh(known_hosts=Path("/known_hosts"), sockets=Path("/sockets"))
BROKEN = facts_of(
    cores=2, disk_free=10**12, gpu_problem="NVML: Driver/library version mismatch", clock=0
)


@pytest.fixture(autouse=True)
def _broken_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*words: object, **more: object) -> Answer:
        output = asdict(BROKEN) | {"benchfleet_facts": 1, "clock": time.time()}
        return Answer(code=0, out=json.dumps(output), err="")

    monkeypatch.setattr(hosts_check, "ask", answer)


def test_a_broken_driver_makes_a_host_unusable() -> None:
    found = hosts_check.check(Host(name="lab1"), SSH)
    assert found.trouble is not None
    assert (found.trouble.stage, found.notes) == ("devices", ())
    assert "Driver/library version mismatch" in found.trouble.message


def test_a_broken_driver_is_good_to_know_where_the_cpu_is_used() -> None:
    found = hosts_check.check(Host(name="lab1", cpu_slots=1), SSH)
    assert found.trouble is None
    assert found.notes == ("its GPUs cannot be queried: NVML: Driver/library version mismatch",)
