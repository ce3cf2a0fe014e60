"""A capability report as a person reads it."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.cli.text.probe_text import summary
from benchfleet.domain.eligibility import default_eligibility
from capabilities import LAPTOP, reported


def test_the_first_line_says_tier_and_role() -> None:
    assert next(summary(reported("lab1", LAPTOP))).startswith("lab1: tier 2 · ")


def test_a_tier_without_a_role_and_a_link_of_unknown_speed_are_reported_as_they_are() -> None:
    rules = default_eligibility()
    rules = replace(rules, tiers=tuple(replace(one, role="") for one in rules.tiers))
    found = {**LAPTOP, "network": {"links": {"eth0": {"speed": 0}, "eth1": {"speed": 125e6}}}}
    output = list(summary(reported("lab1", found, rules)))
    assert output[0] == "lab1: tier 2"
    assert "network   eth0 of unknown speed, eth1 125 MB/s" in output
