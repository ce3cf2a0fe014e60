"""Runs on rented machines, from offer to proof: a simulated provider, and a real sshd behind it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from benchfleet.machines.nvml import RECORDING
from benchfleet.testing.simulated_http import Answer
from benchfleet.testing.simulated_server import SimulatedServer
from rented_machines import KEY, RealCloud, real_cloud

from .conftest import MOCK as STUDY
from .conftest import User, samples_kept, until, well
from .hurried import start_hurried


@pytest.fixture
def rented(
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


HARDWARE = "  hardware: [{gpu: RTX 4090, provider: vast}]\n  benchmarks:"
MIXED = """\
campaign: study
price: 0.36 USD/h
defaults: {generation: {max_new_tokens: 4}}
matrix:
  hardware:
    - {name: rented, gpu: RTX 4090, provider: vast}
    - {name: mine, gpu: RTX 3090, provider: local}
  models:
    - {name: m1, adapter: mock, needs: {gpus: 1}}
    - {name: m2, adapter: mock, needs: {gpus: 1}}
    - name: served
      adapter: openai
      model: simulated
      url: "%s/v1"
      key: "env:SIMULATED_KEY"
      price: {in: 1 USD, out: 1000 USD}
  configs: {dense: null}
  benchmarks: [mock_benchmark]
  exclude:
    - {hardware: rented, models: m2}
    - {hardware: mine, models: m1}
"""
RUN = ["run", "study.yaml", "--machines", "machines.yaml", "--rent"]


def test_a_run_rents_works_and_returns(
    user: User, rented: RealCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run on a GPU here, on a rented one, and at a server, with one budget for all of them."""
    inventory = user.folder / "machines.yaml"
    inventory.write_text(inventory.read_text().replace("cpu_slots: 1, ", ""))
    mine = well(0, name="NVIDIA GeForce RTX 3090")
    (user.folder / "gpus.json").write_text(json.dumps({"gpus": [mine]}))
    monkeypatch.setenv(RECORDING, str(user.folder / "gpus.json"))
    monkeypatch.setenv("SIMULATED_KEY", "key-of-the-tests")
    with SimulatedServer(key="key-of-the-tests") as server:
        user.write(MIXED % server.url)
        process = start_hurried(user, *RUN, "--yes", "--gpus", "0", "--budget", "3 USD")
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    (instance,) = rented.cloud.instances.values()
    assert instance.offer.id == "12"  # the cheaper one
    assert not instance.lives
    status = user.json("status", "study.yaml")
    assert status["success"] == 3
    rows = {row["model"]: row for row in user.json("manifest", "study.yaml")["manifest"]}
    rented_row, here, served = rows["m1"], rows["m2"], rows["served"]
    where = (rented_row["provider"], rented_row["gpu_type"], rented_row["price_per_hour"])
    assert where == ("vast", "RTX 4090", 0.3)
    assert rented_row["session_id"] == instance.id
    assert (here["provider"], here["gpu_type"]) == ("local", "NVIDIA GeForce RTX 3090")
    assert (served["provider"], served["gpu_type"]) == ("local", "endpoint")
    assert rented_row["total_cost"] == pytest.approx(
        rented.cloud.bill() / 1e6,
        abs=0.0001,  # the provider tells whole seconds
    )
    (rentals,) = user.json("report", "study.yaml")["rentals"]
    assert rentals["cost"] == pytest.approx(rented_row["total_cost"])
    assert 0 < rentals["attempts"] < rentals["cost"]  # setup and return are not of the attempts
    summary = json.loads(
        (user.folder / "benchmark_results/study/execution_summary.json").read_text()
    )
    assert summary["rentals"] == status["rentals"] == [rentals]
    assert "Rented machines: " in user.run("status", "study.yaml").stdout
    assert here["total_cost"] > 0
    assert 0.02 < served["total_cost"] < 0.03
    costs = [row["total_cost"] for row in rows.values()]
    user.write((MIXED % server.url).replace("tokens: 4", "tokens: 5"))
    less = f"{sum(costs) - min(costs) / 2:.7f} USD"  # enough for any two of the three
    done = user.run("run", "study.yaml", "--gpus", "0", "--budget", less, code=1)
    assert "USD is spent" in done.stdout + done.stderr
    report = (user.folder / "benchmark_results/study/BENCHMARK_REPORT.md").read_text()
    assert "| RTX 4090 | vast | m1 | 1 | 1 | 0 |" in report
    assert "Nothing failed." in report
    hosts = {json.loads(cell)["provenance"]["host"] for cell in user.published().values()}
    assert len([host for host in hosts if host.startswith("r4090-")]) == 1


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


def test_a_machine_is_rented_by_hand_until_ctrl_c(user: User, rented: RealCloud) -> None:
    words = ["rent", "study.yaml", "r4090", "--machines", "machines.yaml"]
    assert "did you mean 'r4090'" in user.run(*words[:2], "r4009", *words[3:], code=2).stderr
    assert "RTX 4090 at vast for 0.300 USD/h" in user.run(*words, code=2).stderr
    process = user.start(*words, "--yes")
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    command = next(line for line in lines if line.startswith("  ssh "))
    there = subprocess.run(
        [*shlex.split(command), "-o", "IdentitiesOnly=yes", "echo", "hello"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert there.stdout == "hello\n", there.stderr
    (by_hand,) = rented.cloud.living
    run = start_hurried(user, *RUN, "--yes")  # `count` is for both together
    assert run.stdout is not None
    waits = "other runs rent as many machines as 'count' allows"
    assert next(line for line in iter(run.stdout.readline, "") if waits in line)
    assert rented.cloud.living == [by_hand]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert not by_hand.lives
    out, err = run.communicate(timeout=240)
    assert run.returncode == 0, out + err
    assert not rented.cloud.living
    row, *others = user.json("manifest", "study.yaml")["manifest"]
    assert (row["status"], row["notes"]) == ("ended", "the run ended")
    assert {one["status"] for one in others} == {"success"}
    done = user.run(*words, "--yes", "--budget", f"{row['total_cost']:.6f} USD", code=1)
    assert "the budget allows no further machine" in done.stderr


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
    assert "benchfleet sweep-orphans" in err
    sweep = ["sweep-orphans", "study.yaml", "--machines", "machines.yaml", "--yes"]
    assert user.run(*sweep, code=1).stdout
    rented.cloud.faults.clear()
    user.run(*sweep)
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


def test_nothing_is_rented_without_consent_or_beyond_the_budget(
    user: User, rented: RealCloud
) -> None:
    done = user.run(*RUN, code=2)
    assert "1 of at most 1 × RTX 4090, from 0.300 USD/h at vast (Sweden); 2 cells" in done.stdout
    assert "no plan that ends by then costs less" in done.stdout
    assert "the time of 2 cells is not known" in done.stdout
    assert "add --yes" in done.stderr
    done = user.run(*RUN, "--yes", "--budget", "0.05 USD", code=1)
    assert "the budget allows no further machine" in done.stdout + done.stderr
    assert not rented.cloud.instances


def test_a_budget_for_one_machine_of_two_is_no_reason_to_end(user: User, rented: RealCloud) -> None:
    """Nor is a lost answer to the request for it: a list settles that."""
    rented.cloud.faults["create"] = ["lost"]
    inventory = user.folder / "machines.yaml"
    inventory.write_text(inventory.read_text().replace("gpu: RTX", "count: 2, gpu: RTX"))
    process = start_hurried(user, *RUN, "--yes", "--budget", "0.45 USD")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert len(rented.cloud.instances) == len(rented.cloud.creates) == 1
    assert not rented.cloud.living
    assert "waiting for host r4090: a rented machine is being prepared" in out
    assert "waiting for the proof" in err


def test_a_run_in_the_background_asks_before_it_begins(user: User, rented: RealCloud) -> None:
    done = user.run(*RUN, "--detach", code=2)
    assert "add --yes" in done.stderr
    assert not user.json("status", "study.yaml", code=None).get("success")
    assert not rented.cloud.instances
    user.run(*RUN, "--detach", "--yes")
    user.run("attach", "study.yaml")  # to its end
    assert rented.cloud.instances
    assert not rented.cloud.living
    assert user.json("status", "study.yaml")["success"] == 2


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


def test_a_deadline_rents_the_cheapest_machines_that_meet_it(user: User, rented: RealCloud) -> None:
    inventory = user.folder / "machines.yaml"
    inventory.write_text(inventory.read_text().replace("gpu: RTX", "count: 2, gpu: RTX"))
    done = user.run(*RUN, "--deadline", "2h", code=2)
    assert "1 of at most 2 × RTX 4090" in done.stdout
    done = user.run(*RUN, "--deadline", "22m", code=2)
    assert "2 of at most 2 × RTX 4090" in done.stdout
    done = user.run(*RUN, "--deadline", "5m", code=2)
    assert "all that may be rented takes about" in done.stderr
    done = user.run("run", "study.yaml", "--deadline", "2h", code=2)
    assert "add --rent" in done.stderr
    assert not rented.cloud.instances


def test_no_machine_of_other_hardware_is_rented(user: User, rented: RealCloud) -> None:
    user.write(STUDY.replace("  benchmarks:", HARDWARE.replace("4090", "5090")))
    done = user.run(*RUN, "--yes", code=1)
    assert "nobody offers" in done.stdout or "no cell that is left" in done.stdout
    assert not rented.cloud.instances
