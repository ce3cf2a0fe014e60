"""Runs on rented machines, from offer to proof: a simulated provider, and a real sshd behind it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator

import pytest

from rented_machines import KEY, RealCloud, real_cloud

from .conftest import MOCK as STUDY
from .conftest import User, samples_kept, until


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


RUN = ["run", "study.yaml", "--machines", "machines.yaml", "--rent"]


def test_a_run_rents_works_and_returns(user: User, rented: RealCloud) -> None:
    process = user.start(*RUN, "--yes")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    (instance,) = rented.cloud.instances.values()
    assert instance.offer.id == "12"  # the cheaper one
    assert not instance.lives
    assert user.json("status", "study.yaml")["success"] == 2
    rows = user.json("manifest", "study.yaml")["manifest"]
    assert [row["session_id"] for row in rows] == [instance.id] * 2
    assert {row["price_per_hour"] for row in rows} == {0.3}
    assert rows[0]["total_cost"] + rows[1]["total_cost"] == pytest.approx(
        rented.cloud.bill() / 1e6,
        abs=0.0001,  # the provider tells whole seconds
    )
    hosts = {json.loads(cell)["provenance"]["host"] for cell in user.published().values()}
    assert [host.partition("-")[0] for host in hosts] == ["r4090"]


def test_the_next_run_returns_what_a_killed_one_rented(user: User, rented: RealCloud) -> None:
    write_long_cells(user)
    killed = user.start(*RUN, "--yes")
    until(lambda: samples_kept(user), 180)
    killed.kill()
    killed.wait()
    (orphan,) = rented.cloud.living
    user.write(STUDY)
    out, err = user.start(*RUN, "--yes").communicate(timeout=240)
    assert not rented.cloud.living, out + err
    assert not orphan.lives
    assert len(rented.cloud.instances) == 2
    assert len(set(rented.cloud.creates)) == 2


def test_an_instance_ends_itself_when_nobody_is_left(user: User, rented: RealCloud) -> None:
    rented.patience = 4
    write_long_cells(user)
    killed = user.start(*RUN, "--yes")
    until(lambda: samples_kept(user), 180)
    (instance,) = rented.cloud.living
    killed.kill()
    killed.wait()
    until(lambda: not instance.lives, 180)


def test_ctrl_c_returns_the_machine(user: User, rented: RealCloud) -> None:
    write_long_cells(user)
    process = user.start(*RUN, "--yes")
    until(lambda: samples_kept(user), 180)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=240)
    assert process.returncode == 130
    assert len(rented.cloud.instances) == 1
    assert not rented.cloud.living


def test_nothing_is_rented_without_consent_or_beyond_the_budget(
    user: User, rented: RealCloud
) -> None:
    done = user.run(*RUN, code=2)
    assert "up to 1 × RTX 4090, now 0.300 USD/h at vast (Sweden)" in done.stdout
    assert "add --yes" in done.stderr
    done = user.run(*RUN, "--yes", "--rent-budget", "0.05 USD", code=1)
    assert "the budget allows no further machine" in done.stdout + done.stderr
    assert not rented.cloud.instances


def test_a_budget_for_one_machine_of_two_is_no_reason_to_end(user: User, rented: RealCloud) -> None:
    inventory = user.folder / "machines.yaml"
    inventory.write_text(inventory.read_text().replace("gpu: RTX", "count: 2, gpu: RTX"))
    process = user.start(*RUN, "--yes", "--rent-budget", "0.45 USD")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert len(rented.cloud.instances) == 1
    assert "waiting for host r4090: a rented machine is being prepared" in out
    assert "waiting for the proof" in err


def test_a_lost_answer_to_the_request_is_settled_by_the_list(user: User, rented: RealCloud) -> None:
    rented.cloud.faults["create"] = ["lost"]
    process = user.start(*RUN, "--yes")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert len(rented.cloud.creates) == 1
    assert not rented.cloud.living


def write_long_cells(user: User) -> None:
    """A campaign whose cells take long enough to be interrupted."""
    benchmark = "{_hostile: {samples: 600, seconds: 0.05}}"
    user.write(STUDY.replace("benchmarks: [mock_benchmark]", f"benchmarks: [{benchmark}]"))
