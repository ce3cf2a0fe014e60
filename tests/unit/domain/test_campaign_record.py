"""What a ledger tells of a campaign to those without its file."""

from __future__ import annotations

import json

from benchfleet.domain.campaign_record import TOLD, Told, newest
from benchfleet.domain.conditions import read
from benchfleet.domain.eligibility import KINDS, Rule
from benchfleet.domain.event import Event


def test_the_newest_word_counts() -> None:
    first, second = Told(name="study"), Told(name="study", results="s3://lab", placement="fifo")
    assert newest([]) is None
    assert newest([Event(kind="enrolled")]) is None
    assert newest([first.event(), Event(kind="enrolled"), second.event()]) == second


def test_what_a_newer_benchfleet_tells_besides_is_left_out() -> None:
    event = Event(kind=TOLD, data={"name": "study", "moon": "full"})
    assert newest([event]) == Told(name="study")


def test_rules_for_machines_and_the_names_of_variants_are_told() -> None:
    rule = Rule(name="big", when=read("ram_total >= 8GB", KINDS), models=("l*",), variants=False)
    told = Told(name="study", rules=(rule,), variants=("l-q4",))
    event = Event(kind=TOLD, data=json.loads(json.dumps(told.event().data)))
    assert newest([event]) == told
    assert "rules" not in Told(name="study").event().data
