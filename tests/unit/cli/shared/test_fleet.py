"""The machines of a run are those that its inventory and its command line leave."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from benchfleet.campaign.base import Machine
from benchfleet.campaign.inventory import Inventory
from benchfleet.cli.shared import fleet
from benchfleet.domain.engine_choice import EngineChoice
from benchfleet.domain.host import Host
from benchfleet.errors import CampaignError, UnknownName
from benchfleet.fleet import Fleet

HERE = Machine(cpu_slots=1)
LABS = (Host(name="lab1"), Host(name="lab2"))
BOTH = Inventory(hosts=LABS, local=HERE)


def chosen(
    monkeypatch: pytest.MonkeyPatch,
    inventory: Inventory,
    *hosts: str,
    cpu_slots: int | None = None,
    read: list[Path] | None = None,
) -> Fleet:
    times = [] if read is None else read

    def load(path: Path) -> Inventory:
        times.append(path)
        return inventory

    monkeypatch.setattr(fleet, "load_inventory", load)
    arguments = Namespace(
        machines=Path("machines.yaml"),
        hosts=list(hosts),
        gpus=None,
        cpu_slots=cpu_slots,
        share_gpus=False,
        trial_gpus=False,
        trial_load=False,
        engine="",
        rent=False,
        deadline="",
        budget="",
        ray_address="",
    )
    return fleet.machines(arguments, Machine(cpu_slots=cpu_slots), None)


@pytest.mark.parametrize(
    ("words", "here", "names"),
    [
        ((), True, ["lab1", "lab2"]),
        (("lab1",), False, ["lab1"]),
        (("!here",), False, ["lab1", "lab2"]),
        (("here",), True, []),
        (("here,lab2",), True, ["lab2"]),
    ],
)
def test_this_machine_is_chosen_as_the_hosts_are(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], here: bool, names: list[str]
) -> None:
    found = chosen(monkeypatch, BOTH, *words)
    assert found.pool is not None if here else found.pool is None
    assert [host.name for host in found.hosts] == names


def test_an_inventory_of_this_machine_alone_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = chosen(monkeypatch, Inventory(local=HERE))
    assert found.pool is not None
    assert (len(found.pool.devices), list(found.hosts)) == (1, [])


def test_devices_of_the_command_line_bring_this_machine_in(monkeypatch: pytest.MonkeyPatch) -> None:
    found = chosen(monkeypatch, Inventory(hosts=LABS), "lab1", cpu_slots=2)
    assert found.pool is not None
    assert len(found.pool.devices) == 2


def test_a_choice_that_leaves_no_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CampaignError, match="leaves none of"):
        chosen(monkeypatch, Inventory(local=HERE), "!here")


def test_the_inventory_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    chosen(monkeypatch, BOTH, read=read)
    assert len(read) == 1


def asked(engine: str = "", address: str = "") -> Namespace:
    return Namespace(engine=engine, ray_address=address)


def test_the_address_of_a_ray_cluster_is_for_ray_alone() -> None:
    declared = EngineChoice(engine="ray", settings={"address": "a:1", "slots_per_gpu": 2})
    found = fleet.chosen_engine(asked(address="b:2"), declared)
    assert found is not None
    assert found.settings == {"address": "b:2", "slots_per_gpu": 2}
    with pytest.raises(CampaignError, match="is for --engine ray"):
        fleet.chosen_engine(asked("local", "b:2"), None)


def test_the_engine_of_the_command_line_wins_over_the_campaigns() -> None:
    declared = EngineChoice(engine="local", settings={"a": 1})
    assert fleet.chosen_engine(asked(), None) is None
    assert fleet.chosen_engine(asked(), declared) is declared
    assert fleet.chosen_engine(asked("local"), declared) is declared
    other = EngineChoice(engine="elsewhere")
    assert fleet.chosen_engine(asked("local"), other) == EngineChoice(engine="local")


def test_an_engine_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(UnknownName, match="no engine 'nope'"):
        fleet.chosen_engine(asked("nope"), None)


def test_engines_of_the_inventory_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = EngineChoice(engine="local", name="cluster")
    found = chosen(monkeypatch, Inventory(hosts=LABS, engines=(cluster,)))
    assert found.pool is None
    assert found.engines == (cluster,)
