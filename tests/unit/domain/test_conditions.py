from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.domain.clauses import Kind
from benchfleet.domain.conditions import read

KINDS: dict[str, Kind] = {
    "ram": "size",
    "disk": "size",
    "gpus": "count",
    "speed": "number",
    "torch": "truth",
    "system": "text",
}
FACTS = {
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
    ],
)
def test_a_condition_holds_of_facts(text: str) -> None:
    assert read(text, KINDS).holds(FACTS)
    assert not read(f"not ({text})", KINDS).holds(FACTS)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("rm >= 8GB", "no fact 'rm'; did you mean ram"),
        ("colour == 3", "no fact 'colour'; there are ram, disk"),
        ("ram", "ram is no yes or no; compare it"),
        ("ram >=", "is no condition; write such as"),
        ("ram >= 'big'", "ram is a size, and 'big' is not"),
        ("torch >= 1", "torch is a yes or no; it can only be == or !="),
        ("ram > system", "ram is a size and system is text"),
        ("ram in (1, 2)", "facts are compared by <"),
        ("3 < 4", "names no fact"),
        ("ram + 1 > 3", "names no fact"),
        ("ram > 1 + 1", "'1 + 1' is no number"),
        ("__import__('os').system('true')", "cannot stand here"),
        ("(lambda: 1)()", "cannot stand here"),
        ("ram > 1" + " and ram > 1" * 300, "longer than 2000 characters"),
        ("gpus == true", "gpus is a count, and True is not"),
    ],
)
def test_what_is_no_condition_is_refused_with_advice(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        read(text, KINDS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ram >= 8GB and ram < 4GB", "ram is never >= 8 GB and < 4 GB"),
        ("gpus > 1 and gpus < 2", "gpus is never > 1 and < 2"),
        ("ram < 0", "ram is never < 0 GB"),
        ("speed > 2 and speed <= 2", "speed is never > 2 and <= 2"),
        ("gpus == 1 and gpus != 1", "gpus is never == 1 and != 1"),
        ("torch and not torch", "torch is never"),
        ("system == 'a' and system == 'b'", "system is never == 'a' and == 'b'"),
        ("(ram > 2GB or gpus > 3) and ram < 1GB and gpus < 2", "ram is never"),
    ],
)
def test_a_condition_that_no_facts_satisfy_is_found(text: str, why: str) -> None:
    assert why in read(text, KINDS).contradiction()


def test_a_condition_behind_others_that_take_all_of_it_is_found() -> None:
    weak, strong = read("ram >= 5GB", KINDS), read("ram >= 12GB and disk > 1GB", KINDS)
    assert strong.contradiction(weak)
    assert not weak.contradiction(strong)
    assert read("ram >= 5GB", KINDS).contradiction(read("ram < 9GB", KINDS), weak)


def test_what_does_not_hold_is_told() -> None:
    found = read("ram >= 12GB and gpus >= 1 and not torch", KINDS).unmet(FACTS)
    assert found == ["ram is 8 GB, not >= 12 GB", "torch is true"]


def test_conditions_call_others_by_name() -> None:
    named = {"big": read("ram >= 12GB", KINDS)}
    assert read("not big and gpus > 1", KINDS, named).holds(FACTS)


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
def test_a_contradiction_is_told_exactly_where_no_facts_hold(text: str) -> None:
    condition = read(text, KINDS)
    some = any(
        condition.holds({**FACTS, "gpus": gpus, "ram": ram})
        for gpus in range(7)
        for ram in range(7)
    )
    assert bool(condition.contradiction()) is not some
