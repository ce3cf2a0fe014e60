"""Rented machines end, however the run that rented them ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from benchfleet.testing.simulated_http import Answer
from rented_machines import KEY, RealCloud

from .conftest import MOCK as STUDY
from .conftest import User, end_of, samples_kept, until
from .hurried import start_hurried, start_with
from .renting import RUN, renting


@pytest.fixture
def rented(
    user: User, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealCloud]:
    """A user with a campaign, and an inventory that rents one machine at a time."""
    with renting(user, tmp_path_factory, monkeypatch) as cloud:
        yield cloud


def test_the_next_run_returns_what_a_killed_one_rented(
    user: User, rented: RealCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_long_cells(user)
    killed = start_hurried(user, *RUN, "--yes")
    until(lambda: samples_kept(user), 180)
    killed.kill()
    killed.wait()
    (orphan,) = rented.cloud.living
    user.write(STUDY)
    shown = user.run("status", "study.yaml").stdout
    assert f"vast {orphan.id}; 0.300 USD/h; its run died)\nreturn them with: " in shown
    assert " --machines machines.yaml" in shown
    rented.api.keys = {KEY: "me", "an0therk3y": "somebody else"}
    monkeypatch.setenv("VAST_API_KEY", "an0therk3y")  # all its lists are empty
    refused = user.run(*RUN, "--yes", code=2).stderr
    account = f"(vast {orphan.id}, account me at {rented.url}); use that key and address"
    assert account in refused
    assert rented.cloud.living == [orphan]
    monkeypatch.setenv("VAST_API_KEY", KEY)
    out, err = start_hurried(user, *RUN, "--yes").communicate(timeout=240)
    assert not rented.cloud.living, out + err
    assert not orphan.lives
    assert len(rented.cloud.instances) == 2
    assert len(set(rented.cloud.creates)) == 2


def test_an_instance_ends_itself_when_nobody_is_left(user: User, rented: RealCloud) -> None:
    rented.patience = 4
    write_long_cells(user)
    killed = start_hurried(user, *RUN, "--yes")
    until(lambda: samples_kept(user), 180)
    (instance,) = rented.cloud.living
    killed.kill()
    killed.wait()
    until(lambda: not instance.lives, 180)


def test_a_machine_that_does_not_end_is_named_at_the_end_of_the_run(
    user: User, rented: RealCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_RETURN_SECONDS", "6")  # of ten minutes
    rented.cloud.faults["destroy"] = ["ignored"] * 1000
    process = start_hurried(user, *RUN, "--yes")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 1, out + err
    assert user.json("status", "study.yaml")["success"] == 2
    (instance,) = rented.cloud.living
    console = "https://cloud.vast.ai/instances/"
    assert f"vast {instance.id} ({console}) at 0.300 USD/h: its end is not proved" in err
    sweep = ["sweep-orphans", "study.yaml", "--machines", "machines.yaml"]
    assert f"return them with: benchfleet {' '.join(sweep)}\n" in err
    sweep.append("--yes")
    often = "from benchfleet.cli.verbs import sweep_orphans; sweep_orphans._PAUSE_S = 0.5"
    assert end_of(start_with(user, often, *sweep), 1)
    rented.cloud.faults.clear()
    end_of(start_with(user, often, *sweep))
    assert not rented.cloud.living
    monkeypatch.setenv("BENCHFLEET_RETURN_SECONDS", "soon")
    assert "use seconds from 2 to 86400" in user.run(*RUN, "--yes", code=2).stderr


def test_ctrl_c_returns_the_machine(user: User, rented: RealCloud) -> None:
    write_long_cells(user)
    process = start_hurried(user, *RUN, "--yes")
    until(lambda: samples_kept(user) > 40, 180)  # providers count whole seconds
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=240)
    assert process.returncode == 130
    (instance,) = rented.cloud.instances.values()
    (row,) = user.json("manifest", "study.yaml")["manifest"]
    assert (row["session_id"], row["status"]) == (instance.id, "released")
    assert row["total_cost"] > 0
    assert not rented.cloud.living


def test_a_second_ctrl_c_names_what_is_not_proved_to_be_gone(user: User, rented: RealCloud) -> None:
    rented.cloud.faults["destroy"] = ["ignored"] * 1000
    write_long_cells(user)
    process = start_hurried(user, *RUN, "--yes")
    until(lambda: samples_kept(user), 180)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "waiting for the proof" not in (line := process.stderr.readline()):
        assert line, "it ended before"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    (instance,) = rented.cloud.living
    assert "benchfleet: rented machines may still cost money:\n" in err
    assert f"vast {instance.id} (" in err
    assert "at 0.300 USD/h: its end is not proved\n" in err
    again = "benchfleet sweep-orphans study.yaml --machines machines.yaml"
    assert f"return them with: {again}\n" in err
    assert "its run died" in user.run("status", "study.yaml").stdout


def test_a_run_that_is_killed_at_any_step_leaves_nothing_that_the_next_one_forgets(
    user: User, rented: RealCloud
) -> None:
    """Each run is killed by SIGKILL as the provider takes one kind of request; then one is not."""
    write_long_cells(user)
    answer = rented.api.answer
    for kill in KILLS:
        process = start_hurried(user, *RUN, "--yes")
        rented.api.answer = Killer(answer, process, *kill).answer  # type: ignore[method-assign]
        process.communicate(timeout=240)
        assert process.returncode == -signal.SIGKILL
    rented.api.answer = answer  # type: ignore[method-assign]
    user.write(STUDY)
    out, err = start_hurried(user, *RUN, "--yes").communicate(timeout=240)
    assert not rented.cloud.living, out + err
    assert user.json("status", "study.yaml")["success"] == 2
    assert len(set(rented.cloud.creates)) == len(rented.cloud.creates)  # none was sent twice
    rows = user.json("manifest", "study.yaml")["manifest"]
    assert {row["session_id"] for row in rows} >= set(rented.cloud.instances)
    billed = sum(row["total_cost"] or 0 for row in rows)
    slack = 0.0002 * len(rented.cloud.instances)  # the provider tells whole seconds
    # A killed run may have been the only one to read when an instance ended: then more is counted.
    assert rented.cloud.bill() / 1e6 - slack < billed < rented.cloud.bill() / 1e6 + 10 * slack


class Killer:
    """Kills a process as the n-th request of a kind was carried out, before it is answered."""

    def __init__(
        self, answer: Callable[..., Answer], process: Any, method: str, part: str, number: int
    ) -> None:
        self._answer, self._process = answer, process
        self._kind, self._left = (method, part), number

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        answered = self._answer(method, target, headers, body)
        if method == self._kind[0] and self._kind[1] in target:
            self._left -= 1
            if not self._left:
                self._process.kill()
        return answered


KILLS = [
    ("POST", "/bundles/", 1),  # an offer is chosen
    ("PUT", "/asks/", 1),  # the instance is there, and no answer came
    ("GET", "/instances/?", 3),  # the list shows it
    ("GET", "/instances/?", 5),  # it is prepared, or works
    ("DELETE", "/instances/", 1),  # it returns what the run before left
]


def write_long_cells(user: User) -> None:
    """A campaign whose cells take long enough to be interrupted."""
    benchmark = "{_hostile: {samples: 600, seconds: 0.05}}"
    user.write(STUDY.replace("benchmarks: [mock_benchmark]", f"benchmarks: [{benchmark}]"))
