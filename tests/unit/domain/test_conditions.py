from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.domain.conditions import Fact, Kind, parse_condition

KINDS: dict[str, Kind] = {
    "ram": "size",
    "disk": "size",
    "gpus": "count",
    "speed": "number",
    "torch": "truth",
    "system": "text",
}
FACTS: dict[str, Fact] = {
    "ram": 8 * 10**9,
    "disk": 10**10,
    "gpus": 2,
    "speed": 1.5,
    "torch": True,
    "system": "Linux",
}


@pytest.mark.parametrize(
    "text",
    [
        "ram >= 8GB",
        "8gb <= ram",
        "4GiB < ram <= 8 GB",
        "gpus == 2 and (ram < 1GB or disk > 9.9GB)",
        "not (gpus > 2)",
        "torch and system == 'Linux'",
        "torch == true and system != 'Darwin'",
        "ram < disk",
        "speed > 1.4",
        "ram / gpus >= 4GB",
        "gpus > 1 or ram / (gpus - 2) > 1",
        "system != 'a 64GB machine'",
    ],
)
def test_a_condition_holds_of_facts(text: str) -> None:
    assert parse_condition(text, KINDS).holds(FACTS)
    assert not parse_condition(f"not ({text})", KINDS).holds(FACTS)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("rm >= 8GB", "unknown fact 'rm'; did you mean 'ram'"),
        ("colour == 3", "unknown fact 'colour'; there are ram, disk"),
        ("ram", "'ram' is not a condition; compare it"),
        ("ram >=", "cannot be read; write a condition such as"),
        ("ram = 8GB", "; write == to compare"),
        ("ram >= 'big'", "compares text with a number"),
        ("ram == system", "compares text with a number"),
        ("system > 'a'", "orders text; compare it by == or !="),
        ("torch == 1", "'torch == 1' takes true or false for a number; write 'torch' alone"),
        ("torch >= true", "write 'torch' alone, or with not before it"),
        ("(ram > 1GB) > 0", "takes true or false for a number"),
        ("gpus == true", "write 'gpus == 1'"),
        ("ram in (1, 2)", "is not allowed here"),
        ("__import__('os').system('true')", "is not allowed here"),
        ("max(ram) > 1", "unknown function 'max'; there are none"),
        ("ram > 1" + " and ram > 1" * 300, "is too long"),
    ],
)
def test_what_is_no_condition_is_refused_with_advice(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        parse_condition(text, KINDS)


@pytest.mark.parametrize(
    "text",
    [
        "ram >= 8GB and ram < 4GB",
        "gpus > 1 and gpus < 2",
        "gpus > 1.2 and gpus < 1.8",
        "ram < 0",
        "speed > 2 and speed <= 2",
        "gpus == 1 and gpus != 1",
        "torch and not torch",
        "system == 'a' and system == 'b'",
        "(ram > 2GB or gpus > 3) and ram < 1GB and gpus < 2",
    ],
)
def test_a_condition_that_no_facts_satisfy_is_found(text: str) -> None:
    assert not parse_condition(text, KINDS).is_possible()


def test_a_condition_that_cannot_be_judged_is_taken_to_be_possible() -> None:
    assert parse_condition("ram < disk and disk < ram", KINDS).is_possible()
    assert parse_condition("ram / gpus < 0", KINDS).is_possible()


def test_a_condition_behind_others_that_take_all_of_it_is_found() -> None:
    weak = parse_condition("ram >= 5GB", KINDS)
    strong = parse_condition("ram >= 12GB and disk > 1GB", KINDS)
    assert not strong.is_possible(weak)
    assert weak.is_possible(strong)
    assert not parse_condition("ram >= 5GB", KINDS).is_possible(
        parse_condition("ram < 9GB", KINDS), weak
    )


def test_what_does_not_hold_is_reported() -> None:
    found = parse_condition("ram >= 12GB and gpus >= 1 and not torch", KINDS).unmet(FACTS)
    assert found == ["ram is 8 GB, not >= 12 GB", "torch is true"]
    assert parse_condition("not 12GB > ram", KINDS).unmet(FACTS) == ["ram is 8 GB, not >= 12 GB"]
    assert parse_condition("disk <= ram", KINDS).unmet(FACTS) == ["disk is 10 GB, not <= ram, 8 GB"]
    assert parse_condition("1 < gpus < 2", KINDS).unmet(FACTS) == ["gpus is 2, not < 2"]
    assert parse_condition("ram / (gpus - 2) > 1GB", KINDS).unmet(FACTS) == [
        "ram / (gpus - 2): division by zero"
    ]


def test_conditions_call_others_by_name() -> None:
    named = {"big": parse_condition("ram >= 12GB", KINDS)}
    assert parse_condition("not big and gpus > 1", KINDS, named).holds(FACTS)


atoms = st.tuples(
    st.sampled_from(["gpus", "ram"]),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.integers(-1, 4),
).map(lambda one: f"{one[0]} {one[1]} {one[2]}")
texts = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda one: f"({' '.join(one)})"
        ),
        inner.map(lambda one: f"(not {one})"),
    ),
    max_leaves=6,
)


@given(texts.filter(lambda text: "-" not in text))
def test_a_contradiction_is_reported_exactly_where_no_facts_hold(text: str) -> None:
    condition = parse_condition(text, KINDS)
    some = any(
        condition.holds({**FACTS, "gpus": gpus, "ram": ram})
        for gpus in range(7)
        for ram in range(7)
    )
    assert condition.is_possible() is some
