"""Engines that an inventory names beside its hosts."""

from __future__ import annotations

import pytest

from benchfleet.campaign.inventory import choose_hosts
from benchfleet.domain.engine_choice import EngineChoice

from .inventories import inventory, mistakes


def test_engines_stand_beside_hosts_and_are_chosen_by_name() -> None:
    found = inventory("{hosts: [lab1], engines: {here-too: local, cluster: {local: {}}}}")
    assert found.engines == (
        EngineChoice(engine="local", name="here-too"),
        EngineChoice(engine="local", name="cluster"),
    )
    chosen = choose_hosts(found, ["cluster"])
    assert (chosen.hosts, chosen.engines) == ((), found.engines[1:])


def test_an_inventory_may_name_engines_alone() -> None:
    assert inventory("{engines: {cluster: local}}").hosts == ()


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("{engines: {a: nope}}", "engines.a", "no engine 'nope'"),
        ("{engines: {a: {local: {gpus: 1}}}}", "engines.a.local", "no setting 'gpus'"),
        ("{engines: {a: {local: {}, ray: {}}}}", "engines.a", "must name one engine"),
        ("{hosts: [a], engines: {a: local}}", "engines.a", "the name of a host"),
        ("{engines: {here: local}}", "engines.here", "is this machine"),
    ],
)
def test_wrong_engines_are_mistakes(text: str, key: str, message: str) -> None:
    assert message in mistakes(text)[key]
