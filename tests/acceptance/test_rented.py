"""Runs on rented machines, from offer to proof: a simulated provider, and a real sshd behind it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator

import pytest

from benchfleet.machines.nvml import RECORDING
from benchfleet.testing.simulated_server import SimulatedServer
from rented_machines import RealCloud

from .conftest import MOCK as STUDY
from .conftest import User, well
from .hurried import start_hurried
from .renting import RUN, renting


@pytest.fixture
def rented(
    user: User, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealCloud]:
    """A user with a campaign, and an inventory that rents one machine at a time."""
    with renting(user, tmp_path_factory, monkeypatch) as cloud:
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
    rented.boot_s = 2.0  # the provider tells whole seconds, and less than one costs nothing
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


def test_nothing_is_rented_without_consent_or_beyond_the_budget(
    user: User, rented: RealCloud
) -> None:
    forgotten = user.run("run", "study.yaml", "--machines", "machines.yaml", code=2).stderr
    assert "names only machines to rent; add --rent" in forgotten
    done = user.run(*RUN, code=2)
    assert "1 of at most 1 × RTX 4090, from 0.300 USD/h at vast (Sweden); 2 cells" in done.stdout
    assert "no plan that ends by then costs less" in done.stdout
    assert "the time of 2 cells is not known" in done.stdout
    assert "add --yes" in done.stderr
    done = user.run(*RUN, "--yes", "--budget", "0.05 USD", code=1)
    why = (
        "the budget allows no further machine: for one of 0.300 USD/h 0.345 USD is reserved, and "
        "0.050 USD is left; raise --budget"
    )
    assert f"ended early: no machine can be used (r4090: {why})" in done.stdout
    assert "no device is left" not in done.stdout
    few = user.run(*RUN, "--yes", "--budget", "0.01 USD", code=2).stderr
    assert "costs at least 0.03 USD, and 0.01 USD is left; raise it" in few
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
