from __future__ import annotations

import pytest

from benchfleet.domain.conditions import parse_condition
from benchfleet.domain.eligibility import KINDS, Rule, default_eligibility
from benchfleet.machines.probe.report import facts_of
from capabilities import BOARD, BOX, DESKTOP, LAPTOP


@pytest.mark.parametrize(
    ("results", "tier", "rules"),
    [
        (BOARD, 1, {"prerequisites"}),
        (LAPTOP, 2, {"prerequisites", "e0_e1", "e2_quantized"}),
        (DESKTOP, 3, {"prerequisites", "e0_e1", "e2_quantized", "e2_full"}),
        (BOX, 3, {"prerequisites", "e0_e1", "e2_quantized", "e2_full"}),
    ],
)
def test_a_strong_machine_may_do_what_a_weak_one_may_and_more(
    results: dict[str, object], tier: int, rules: set[str]
) -> None:
    judged = default_eligibility().judge(facts_of(results, "it"))
    assert {name for name, holds in judged.holds.items() if holds} == rules
    assert judged.tier == tier
    assert set(judged.why_not) == set(judged.holds) - rules


def test_a_rule_that_does_not_hold_says_what_is_missing() -> None:
    judged = default_eligibility().judge(facts_of(BOARD, "it"))
    assert judged.why_not["e0_e1"] == "ram_available is 3.4 GB, not >= 5 GB"


def test_no_usual_rule_and_no_usual_tier_is_out_of_reach() -> None:
    rules = default_eligibility()
    assert all(rule.when.is_possible() for rule in rules.rules)
    for place, tier in enumerate(rules.tiers):
        assert tier.when.is_possible(*(one.when for one in rules.tiers[:place]))


def test_a_cell_runs_where_one_of_the_rules_about_it_holds() -> None:
    rules, laptop = default_eligibility(), facts_of(LAPTOP, "it")
    assert not rules.barred(laptop, phase="e1", model="m", variant=False)
    assert "e2_full: ram_available" in rules.barred(laptop, phase="e2", model="m", variant=False)
    assert not rules.barred(laptop, phase="e2", model="m", variant=True)
    assert not rules.barred(facts_of(BOARD, "it"), phase="", model="m", variant=False)


@pytest.mark.parametrize(
    ("phase", "model", "about"), [("e2", "m", True), ("e2", "tiny-m", False), ("e0", "m", False)]
)
def test_a_rule_is_about_the_phases_and_models_that_its_patterns_choose(
    phase: str, model: str, about: bool
) -> None:
    when = parse_condition("gpus >= 1", KINDS)
    rule = Rule(name="large", when=when, phases=("e*", "!e0"), models=("!tiny-*",))
    assert rule.about(phase=phase, model=model, variant=False) is about
