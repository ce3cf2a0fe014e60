"""S4's whole matrix on rented machines, in virtual time: each failure of its tables happens once.

Its three tables are failures of provisioning, of execution and of collecting results. The stages of
a rented machine have more failures; each of those happens once, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.campaign.inventory import load_inventory
from benchfleet.campaign.load import load_campaign
from benchfleet.domain.cell import Cell
from benchfleet.domain.rent import RentEntry
from benchfleet.planner.rent.build import Market as Offered
from benchfleet.planner.rent.build import build, planned_entries, split_entries
from benchfleet.planner.rent.choose import quickest
from benchfleet.rentals.market import Market
from benchfleet.rentals.stage_commands import stage_commands
from benchfleet.runner.scheduler.duration_model import DurationModel
from simulation.rented_machine import CELL_TROUBLES, MACHINE_TROUBLES, Machine
from simulation.rented_run import RentedRun

EXAMPLE = Path(__file__).parents[2] / "examples" / "rented"
MODELS = "qwen2/1.5b", "qwen2/7b", "deepseek-r1/14b", "deepseek-r1/32b", "deepseek-r1/70b"
OFFERS = [
    *(("vast", gpu, vram, price) for gpu, vram, price in (
        ("RTX 3090", 24, 200_000), ("RTX 4090", 24, 350_000), ("RTX 5090", 32, 600_000),
        ("A100 PCIE", 80, 1_100_000), ("H200 NVL", 141, 2_400_000), ("RTX 5060 Ti", 16, 110_000),
        ("RTX 5070", 12, 120_000),
    )),
    ("tensordock", "RTX 3090", 24, 220_000), ("tensordock", "RTX 4090", 24, 370_000),
]  # fmt: skip
MACHINES = {
    ("vast", "RTX 3090"): ["wrong_gpu", "key_refused", "stopped_at_work"],
    ("vast", "RTX 4090"): ["no_login", "small_gpu"],
    ("vast", "RTX 5090"): ["stopped", "no_install"],
    ("vast", "A100 PCIE"): ["slow_login", "no_timer"],
    ("vast", "H200 NVL"): ["price_rose", "no_timer"],
    ("vast", "RTX 5060 Ti"): ["no_driver", "never_runs"],
    ("vast", "RTX 5070"): ["busy_gpu"],
}
CELLS = {
    "qwen2-7b 3090-vast": ["stopped_at_work"],
    "qwen2-7b 4090-vast": ["oom"],
    "deepseek-r1-14b 4090-vast": ["server_died"],
    "qwen2-7b 5090-vast": ["stuck"],
    "deepseek-r1-14b 5090-vast": ["slot_lost"],
    "qwen2-7b 4090-tensordock": ["no_result"],
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RentedRun:
    """Both providers, with six machines of each GPU."""
    world = RentedRun(tmp_path, monkeypatch)
    for kind, (cloud, gpu, vram, price) in enumerate(OFFERS):
        for number in range(6):
            transfer = 5_000 if gpu in ("A100 PCIE", "RTX 5090") else 0
            id = 100 * kind + number + 1
            world.offer(cloud, id, gpu, vram, price + 1000 * number, transfer)
    return world


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """The cells of the example, as if its models were pulled here."""
    for model in MODELS:
        manifest = tmp_path / "pulled/manifests/registry.ollama.ai/library" / model
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(f'{{"model": "{model}"}}')
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "pulled"))
    return load_campaign(EXAMPLE / "matrix.yaml").matrix.expand()


def planned(world: RentedRun, cells: list[Cell], budget: float) -> tuple[RentEntry, ...]:
    """What a run with a budget agrees to rent."""
    entries = split_entries(load_inventory(EXAMPLE / "matrix_machines.yaml").rent, cells)
    market = Market(accounts=world.accounts(), public_key=world.folder)
    markets = [
        Offered(
            entry=entry,
            offers=tuple(one.offer for one in market.ranked(entry, world.history(), 0.0)),
        )
        for entry in entries
    ]
    problem = build(cells, DurationModel(()), markets).problem
    return planned_entries(markets, quickest(problem, round(budget * 1e6)).counts)


def test_the_matrix_ends_whatever_fails(world: RentedRun, cells: list[Cell]) -> None:
    world.machine_troubles = {key: list(names) for key, names in MACHINES.items()}
    world.cell_troubles = {key: list(names) for key, names in CELLS.items()}
    tensordock, vast = world.clouds["tensordock"], world.clouds["vast"]
    tensordock.faults["create"] = ["refused", "busy", "lost"]  # "No available public IPs", …
    tensordock.faults["destroy"] = ["ignored", "lost"]
    tensordock.faults["list"] = ["away"]
    vast.faults = {
        "create": ["refused", "lost", "broken", "busy"],
        "destroy": ["away", "ignored"],
        "list": ["away", "short", "busy"],
        "offers": ["away"],
    }
    entries = [
        replace(one, image="vllm/vllm-openai") if one.name == "a100" else one
        for one in planned(world, cells, 60.0)
    ]
    assert len(entries) == 9
    end, request = world.run(cells, entries, budget=60.0)

    assert end.progress.states == {"success": 21}
    assert not request.remaining
    assert not world.living()
    assert not world.history().open
    for cloud in (vast, tensordock):
        assert not any(cloud.faults.values()), cloud.faults
        assert len(set(cloud.creates)) == len(cloud.creates)  # none was sent twice
    every = {*MACHINE_TROUBLES, *CELL_TROUBLES}
    assert every <= set(world.injected), every - set(world.injected)
    assert_bills_equal_the_manifest(world)
    assert_failures_are_named(world)
    assert_only_printed_commands_ran(world, entries)


def assert_bills_equal_the_manifest(world: RentedRun) -> None:
    """Vast.ai tells when an instance began, so its bill is met exactly, with the traffic of some.
    TensorDock does not, so more is counted: from the intent on."""
    rentals = world.history().rentals.values()
    costs: Counter[str] = Counter()
    for rental in rentals:
        costs[rental.account.provider] += rental.cost
    assert costs["vast"] == world.clouds["vast"].bill()
    assert {one.exact for one in rentals if one.instance} == {True, False}
    least, machines = world.clouds["tensordock"].bill(), len(world.clouds["tensordock"].instances)
    assert least <= costs["tensordock"] <= least + machines * 10_000
    assert sum(round(row["total_cost"] * 1e6) for row in world.manifest()) == costs.total()


def assert_failures_are_named(world: RentedRun) -> None:
    """Each is in the manifest by stage and kind; only those of cells use up a try."""
    rows = world.manifest()
    failed = {(row["failure_stage"], row["failure_reason"]) for row in rows}
    assert failed == {
        (None, None),
        ("provision", "no_capacity"),
        ("provision", "rate_limited"),
        ("provision", "instance_stopped"),
        ("ssh_wait", "ssh_failed"),
        ("hardware", "wrong_hardware"),
        ("hardware", "no_driver"),
        ("dead_man", "unhealthy"),
        ("bootstrap", "unhealthy"),
        ("load", "oom"),
        ("load", "server_died"),
        ("benchmark", "timeout"),
        ("benchmark", "slot_lost"),
        ("benchmark", "host_lost"),
    }
    seldom = [row for row in rows if row["failure_reason"] == "host_lost"]
    tries = {record.path: record.tries for record in world.ledger.cells()}
    assert [tries[row["output_file"]] for row in seldom] == [1]  # of the attempt that succeeded
    slow = [one for one in world.machines if one.trouble == "slow_login"]
    assert any(one.slots for one in slow), "a heavy image was not waited for"
    used = Counter((one.one.offer.provider, one.one.offer.machine) for one in world.machines)
    troubled = {(m.one.offer.provider, m.one.offer.machine) for m in world.machines if m.trouble}
    again = {one for one in troubled if used[one] > 1}
    assert again <= {_machine(slow[0])}


def _machine(one: Machine) -> tuple[str, str]:
    return one.one.offer.provider, one.one.offer.machine


def assert_only_printed_commands_ran(world: RentedRun, entries: Sequence[RentEntry]) -> None:
    """`doctor --commands` prints them; a program that copies files is not among them."""
    printed = {tuple(one.words) for entry in entries for one in stage_commands(entry)}
    ran = {tuple(words) for machine in world.machines for words in machine.commands}
    assert {words for words in ran if words[0] != "echo"} <= printed
    assert {len(words) for words in ran if words[0] == "echo"} == {2}
