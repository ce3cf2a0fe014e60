from __future__ import annotations

from typing import Any

import pytest

from benchfleet.campaign.entry import Entry, Mistakes
from benchfleet.campaign.source import Flaw, Source
from benchfleet.hints import hint


def _entry(value: Any) -> Entry:
    return Entry(value, ("k",), Mistakes(Source(data=None, lines={(): 1, ("k",): 7})))


def _only(entry: Entry) -> str:
    (mistake,) = entry.mistakes.listed()
    return mistake.message


def test_an_absent_value_means_the_default_and_is_no_mistake() -> None:
    entry = _entry(None)
    assert entry.text("x") == "x"
    assert entry.whole(3) == 3
    assert entry.truth(True) is True
    assert entry.duration(None) is None
    assert entry.size() == 0
    assert entry.kwargs() == {}
    assert entry.items() == []
    assert entry.right


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "must be a whole number, 1 or more, not 0"),
        (True, "must be a whole number, 1 or more, not true"),
        (1.5, "must be a whole number, 1 or more, not 1.5"),
        ("4", "must be a whole number, 1 or more, not '4'"),
        ([], "must be a whole number, 1 or more, not a list"),
        (2_000_000, "must be at most 1000000, not 2000000"),
    ],
)
def test_a_wrong_count_is_one_mistake_and_gives_the_default(value: Any, message: str) -> None:
    entry = _entry(value)
    assert entry.whole(5) == 5
    assert _only(entry) == message


@pytest.mark.parametrize("value", ["yes", 1, "true", []])
def test_only_true_and_false_are_truths(value: Any) -> None:
    entry = _entry(value)
    assert entry.truth(False) is False
    assert "must be true or false" in _only(entry)


@pytest.mark.parametrize(("value", "shown"), [(7, "7"), (True, "true"), (1.5, "1.5")])
def test_a_value_that_should_be_text_is_reported_with_the_advice_to_quote_it(
    value: Any, shown: str
) -> None:
    entry = _entry(value)
    assert entry.text("default") == "default"
    assert _only(entry) == f"must be text, not {shown}; put it in quotes"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", ".hidden", " x", "x\n", "x" * 201])
def test_what_cannot_be_a_folder_is_no_name(name: str) -> None:
    entry = _entry(name)
    assert entry.name() == ""
    assert not entry.right


def test_a_whole_number_is_a_label_and_a_truth_is_none() -> None:
    assert _entry(512).label() == "512"
    assert _entry("cot").label() == "cot"
    wrong = _entry(True)
    assert wrong.label() == ""
    assert "must be text" in _only(wrong)


def test_an_unknown_key_is_reported_with_the_near_one_and_its_line() -> None:
    source = Source(data={"campaing": "x"}, lines={(): 1, ("campaing",): 4})
    root = Entry(source.data, (), Mistakes(source))
    fields = root.fields(("campaign", "results"))
    assert fields["campaign"].absent
    (mistake,) = root.mistakes.listed()
    assert (mistake.key, mistake.line) == ("campaing", 4)
    assert mistake.message == "no key 'campaing' here; did you mean 'campaign'?"


def test_a_list_in_place_of_a_mapping_is_one_mistake() -> None:
    entry = _entry([1])
    assert all(field.absent for field in entry.fields(("a", "b", "c", "d")).values())
    assert _only(entry) == "must be a mapping of a, b, c, …, not a list"


def test_an_empty_item_of_a_list_is_a_mistake() -> None:
    entry = _entry(["a", None])
    assert [item.value for item in entry.items()] == ["a", None]
    (mistake,) = entry.mistakes.listed()
    assert mistake.key == "k[1]"


def test_a_single_item_stands_for_a_list_only_where_it_may() -> None:
    assert [item.value for item in _entry("a").items(single=True)] == ["a"]
    entry = _entry("a")
    assert entry.items() == []
    assert "must be a list" in _only(entry)


def test_a_mistake_is_reported_once_and_makes_all_around_it_wrong() -> None:
    root = Entry({"a": {"b": 0}, "ab": 0}, (), Mistakes(Source(data=None)))
    inner = root.inside("a").inside("b")
    inner.whole(1)
    inner.whole(1)
    assert len(root.mistakes.listed()) == 1
    assert not root.right
    assert not root.inside("a").right
    assert root.inside("ab").right


def test_mistakes_come_by_line_and_begin_with_the_flaws_of_the_source() -> None:
    source = Source(
        data={},
        lines={(): 1, ("late",): 9, ("early",): 2},
        flaws=(Flaw(message="flaw", path=("late",)), Flaw(message="other", line=5)),
    )
    mistakes = Mistakes(source)
    mistakes.add(("early",), "first")
    mistakes.add(("early",), "shown elsewhere", at=("late",))
    assert [(m.line, m.key, m.message) for m in mistakes.listed()] == [
        (2, "early", "first"),
        (5, "", "other"),
        (9, "late", "flaw"),
        (9, "early", "shown elsewhere"),
    ]


def test_a_hint_names_the_near_ones_or_all_there_are() -> None:
    assert hint("recal", ["recall", "longbench"]) == "did you mean 'recall'?"
    assert hint("zzz", ["recall", "longbench"]) == "there are recall, longbench"
    assert hint("zzz", []) == "there are none"
