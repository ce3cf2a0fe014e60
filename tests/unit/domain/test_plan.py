"""Which machine runs what, as the ledger records it."""

from __future__ import annotations

import json

from benchfleet.domain.event import Event
from benchfleet.domain.plan import ASSIGNED, Plan, forms, newest, plans


def test_the_plan_with_the_largest_number_counts_in_whatever_order_it_is_read() -> None:
    first = Plan(number=1, hosts={"lab1": ["a", "b"]}, forms={"a": "a4"})
    second = Plan(number=2, hosts={"lab1": ["a"], "lab2": ["b"]}, forms={"b": "b4"})
    events = [second.event(), Event(kind="enrolled"), first.event()]
    assert plans(events) == [first, second]
    assert newest(plans(events)) == second
    assert forms(plans(events)) == {"a": "a4", "b": "b4"}
    assert newest([]) is None


def test_of_two_plans_made_at_once_all_readers_take_the_same() -> None:
    here = Plan(number=3, hosts={"lab1": ["a"]}).event()
    there = Plan(number=3, hosts={"lab2": ["a"]}).event()
    assert newest(plans([here, there])) == newest(plans([there, here]))


def test_a_plan_survives_its_way_through_json_with_its_name() -> None:
    plan = Plan(number=1, hosts={"lab1": ("a", "b")}, forms={"a": "a4"}, settings={"seed": 1})
    again = Plan.from_dict(json.loads(json.dumps({**plan.event().data, "later": 1})))
    assert again.name == plan.name
    assert again.of("lab1") == {"a": "a4", "b": "b"}
    assert again.of("lab2") == {}
    assert again.cells == {"a", "b"}


def test_forms_alone_are_no_plan() -> None:
    """As recorded by who runs what a file gives, and by a benchfleet of before."""
    plan = Plan(number=1, hosts={"lab1": ["a"]})
    output = [plan.event(), Event(kind=ASSIGNED, data={"forms": {"a": "a4"}})]
    assert newest(plans(output)) == plan
    assert forms(plans(output)) == {"a": "a4"}
