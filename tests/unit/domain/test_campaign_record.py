"""What a ledger records of a campaign, for hosts without its file."""

from __future__ import annotations

import json

from benchfleet.domain.campaign_record import (
    CAMPAIGN_RECORDED,
    CampaignRecord,
    newest_record,
)
from benchfleet.domain.conditions import parse_condition
from benchfleet.domain.eligibility import KINDS, Rule
from benchfleet.domain.event import Event


def test_the_newest_word_counts() -> None:
    first = CampaignRecord(name="study")
    second = CampaignRecord(name="study", results="s3://lab", placement="fifo")
    assert newest_record([]) is None
    assert newest_record([Event(kind="enrolled")]) is None
    assert newest_record([first.event(), Event(kind="enrolled"), second.event()]) == second


def test_what_a_newer_benchfleet_tells_besides_is_left_out() -> None:
    event = Event(kind=CAMPAIGN_RECORDED, data={"name": "study", "moon": "full"})
    assert newest_record([event]) == CampaignRecord(name="study")


def test_rules_for_machines_and_the_names_of_variants_are_recorded() -> None:
    rule = Rule(
        name="big", when=parse_condition("ram_total >= 8GB", KINDS), models=("l*",), variants=False
    )
    output = CampaignRecord(name="study", rules=(rule,), variants=("l-q4",))
    event = Event(kind=CAMPAIGN_RECORDED, data=json.loads(json.dumps(output.event().data)))
    assert newest_record([event]) == output
    assert "rules" not in CampaignRecord(name="study").event().data
