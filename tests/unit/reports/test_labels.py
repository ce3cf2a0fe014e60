"""Labels are short, distinct, and turn nothing beside them around."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.reports.labels import _width, distinct, isolated, isolated_words, shortened

HUB = "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B-Instruct-{}-INT4-g128 × {}"


def test_the_middle_of_a_long_name_is_cut() -> None:
    names = [HUB.format(method, config) for method in ("AWQ", "GPTQ") for config in ("w1", "w2")]
    labels = shortened(names, 360)
    assert labels[names[0]] == "deepseek-ai/DeepSeek-R1-Dist…-Instruct-AWQ-INT4-g128 × w1"
    assert [label[-14:] for label in labels.values()] == [
        "INT4-g128 × w1",
        "INT4-g128 × w2",
        "INT4-g128 × w1",
        "INT4-g128 × w2",
    ]
    assert all(12 * _width(label) <= 360 for label in labels.values())
    assert shortened(names, 600) == {name: name for name in names}


def test_names_that_differ_in_their_middle_keep_it() -> None:
    names = [f"organization/{'a-word-' * 8}{method}-{'b-word-' * 8}" for method in ("awq", "gptq")]
    labels = shortened(names, 300)
    assert [label.partition("…")[2][:4] for label in labels.values()] == ["awq-", "gptq"]
    wide = shortened(names, 500)
    assert wide[names[0]].startswith("organi")
    assert wide[names[0]].endswith(f"…awq-{'b-word-' * 8}")


def test_a_long_word_is_cut_at_the_letter_that_differs() -> None:
    names = [f"{'m' * 90}{letter}{'n' * 90}" for letter in "xy"]
    assert [label[:2] for label in shortened(names, 120).values()] == ["…x", "…y"]


@given(
    st.lists(st.text(alphabet="ab-m\u05d0/", min_size=1, max_size=60), unique=True, max_size=8),
    st.integers(1, 200),
)
def test_different_names_have_different_labels(names: Sequence[str], px: int) -> None:
    labels = shortened(names, px)
    assert [*labels] == names
    assert len({*labels.values()}) == len(names)


def test_equal_labels_are_numbered() -> None:
    assert distinct({1: "a", 2: "a", 3: "a (2)", 4: "b"}) == {
        1: "a",
        2: "a (2)",
        3: "a (2) (2)",
        4: "b",
    }


def test_wide_letters_take_more_room() -> None:
    assert _width("MMMM") > 2 * _width("illi")
    assert _width("模型") == 2
    assert _width(isolated("מודל")) == _width("מודל")


@pytest.mark.parametrize("name", ["מודל", "m-מודל", "نموذج", "12 ١٢"])
def test_a_name_from_right_to_left_is_isolated(name: str) -> None:
    assert isolated(name) == f"\u2068{name}\u2069"


def test_joined_names_are_isolated_one_by_one() -> None:
    assert isolated("מודל × a / מבחן 2", "<", ">") == "<מודל> × a / <מבחן 2>"
    assert isolated("org/מודל", "<", ">") == "org/<מודל>"


def test_words_of_a_sentence_are_isolated() -> None:
    text = "of מודל גדול / dense: 50% of  m-מבחן-2\u202e."
    expected = "of <מודל גדול> / dense: 50% of m-<מבחן>-2\\u202e."
    assert isolated_words(text, "<", ">") == expected


def test_other_names_stay_as_they_are() -> None:
    assert isolated("a  b\u202e模") == "a b\\u202e模"


def test_a_cut_closes_what_it_opens() -> None:
    label = shortened([f"\u2068{'מודל ' * 30}\u2069 × w1"], 200).popitem()[1]
    assert label.count("\u2068") == label.count("\u2069") == 2
    assert label.endswith("\u2069 × w1")
