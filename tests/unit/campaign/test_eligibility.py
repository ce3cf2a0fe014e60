from __future__ import annotations

import pytest

from benchfleet.campaign.eligibility import read_eligibility
from benchfleet.domain.eligibility import default_eligibility

from .reading import mistakes_of, read


def test_a_campaign_without_rules_has_the_usual_ones() -> None:
    assert read_eligibility(read("{}").inside("eligibility")) == default_eligibility()


def test_rules_and_tiers_are_read() -> None:
    entry = read(
        """
        e2_full: ram_available >= 24GB
        small: {when: ram_available >= 2GB, models: "tiny-*"}
        warmup: disk_free >= 1GB
        tiers:
          - {tier: 2, when: e2_full and gpus > 0, role: everything}
          - {tier: 1, when: small}
        """
    )
    found = read_eligibility(entry)
    assert mistakes_of(entry) == {}
    full, small, warmup = found.rules
    assert (full.phases, full.variants) == (("e2",), False)  # as the usual rule of its name
    assert (small.models, small.phases) == (("tiny-*",), ())
    assert warmup.phases == ("warmup",)
    assert [tier.tier for tier in found.tiers] == [2, 1]
    assert found.tiers[0].when.names() == {"ram_available", "gpus"}


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("a: ram >= 3GB", "a", "unknown fact 'ram'; did you mean 'ram_total' or 'ram_available'?"),
        ("a: ram_available >= 8GB and ram_available < 4GB", "a", "no machine can ever satisfy"),
        ("a: {when: gpus < 0}", "a.when", "no machine can ever satisfy gpus < 0"),
        ("a: {phases: e0}", "a.when", "is missing"),
        ("a: {wen: gpus > 0}", "a.wen", "did you mean 'when'"),
        ("a: null", "a", "says nothing"),
        ("gpus: gpus > 0", "gpus", "is a fact"),
        ("e-2: gpus > 0", "e-2", "letters, digits and _"),
        ("a: 7", "a", "must be a mapping"),
        (
            "{a: disk_free > 5GB, b: disk_free > 9GB, "
            "tiers: [{tier: 1, when: a}, {tier: 2, when: b}]}",
            "tiers[1].when",
            "is never reached: an earlier tier takes every machine",
        ),
        ("tiers: [{when: e2_full}]", "tiers[0]", "has no number"),
        ("tiers: [{tier: 1, when: e3}]", "tiers[0].when", "unknown fact 'e3'"),
    ],
)
def test_a_rule_that_can_never_match_is_a_mistake_with_its_key(
    text: str, key: str, message: str
) -> None:
    entry = read(text)
    read_eligibility(entry)
    assert message in mistakes_of(entry)[key]
