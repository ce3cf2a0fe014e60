from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.domain.canonical import canonical_json, content_digest

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def _turned(value: Any) -> Any:
    """The same content with the keys of every mapping in the opposite order."""
    if isinstance(value, dict):
        return {key: _turned(item) for key, item in reversed(value.items())}
    return [_turned(item) for item in value] if isinstance(value, list) else value


def test_the_text_is_short_sorted_and_readable() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'


def test_the_digest_of_known_content_never_changes() -> None:
    expected = "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777"
    assert content_digest({"b": 2, "a": 1}) == expected


@settings(deadline=None)
@given(PLAIN)
def test_the_order_of_keys_does_not_count(value: Any) -> None:
    assert canonical_json(_turned(value)) == canonical_json(value)


@settings(deadline=None)
@given(PLAIN)
def test_the_text_reads_back_as_the_value(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@settings(deadline=None)
@given(st.lists(st.integers(), min_size=2, max_size=5, unique=True))
def test_the_order_of_a_list_counts(values: list[int]) -> None:
    assert content_digest(values) != content_digest(values[::-1])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        canonical_json({"x": value})
