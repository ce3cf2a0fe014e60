from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.domain import units
from benchfleet.domain.units import duration, size, with_fractions
from benchfleet.domain.usage import Price


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("22GB", 22 * 10**9),
        ("22 gb", 22 * 10**9),
        ("22GiB", 22 * 2**30),
        ("1.5TB", 15 * 10**11),
        ("1.1GB", 11 * 10**8),
        ("512KiB", 512 * 1024),
        ("7MB", 7 * 10**6),
        ("100B", 100),
    ],
)
def test_a_size_is_read_in_bytes(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("22XB", "'22XB' is not a size; write 22GB"),
        (22, "22 is not a size; write 22GB"),
        ("1.5", "'1.5' is not a size; write 1.5GB"),
        ("much", "'much' is not a size; write 22GB"),
        ("22iB", "'22iB' is not a size; write 22GB"),
        ("0GB", "'0GB' is not a size; write 22GB"),
        ("-4GB", "'-4GB' is not a size; write 22GB"),
        (True, "True is not a size; write 22GB"),
        (None, "None is not a size; write 22GB"),
    ],
)
def test_what_is_no_size_is_reported_with_its_own_number(value: object, advice: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole message is compared)
        size(value)
    assert str(caught.value) == advice


def test_a_size_that_no_ledger_could_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a size"):
        size("99999999999TB")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6h", 21_600),
        ("10m", 600),
        ("90s", 90),
        ("1h30m", 5_400),
        ("1h 30m", 5_400),
        ("2d", 172_800),
        ("0.5h", 1_800),
        ("1.5 s", 1.5),
    ],
)
def test_a_time_is_read_in_seconds(text: str, expected: float) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize("value", ["", "6", "0s", "30m1h", "6 weeks", "-1h", 90, None, "h", "1h1h"])
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not a time; write ") as refused:
        duration(value)
    assert value != 90 or str(refused.value) == "90 is not a time; write 90h, 90m or 90s"


def test_percentages_become_fractions_wherever_they_stand() -> None:
    assert with_fractions({"a": ["10%", 3], "b": {"c": "0.7 %"}}) == {
        "a": [0.1, 3],
        "b": {"c": 0.007},
    }


def test_other_text_with_a_percent_sign_stays_text() -> None:
    assert with_fractions(["top-10%", "%", "10%%"]) == ["top-10%", "%", "10%%"]


@settings(deadline=None)
@given(st.text(max_size=12))
def test_any_text_is_a_size_and_a_time_or_a_value_error(text: str) -> None:
    for parse in (size, duration):
        try:
            found = parse(text)
        except ValueError:
            continue
        assert found > 0


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0.39/h", Price(amount=0.39)),
        ("$0.39/h", Price(amount=0.39, currency="$")),
        ("0.39 EUR/h", Price(amount=0.39, currency="EUR")),
        ("EUR 2 / h", Price(amount=2, currency="EUR")),
        ("$1.20/gpu/h", Price(amount=1.2, currency="$", per_gpu=True)),
        ("1.20 EUR/GPU/h", Price(amount=1.2, currency="EUR", per_gpu=True)),
        (0.39, Price(amount=0.39)),
        (0, Price(amount=0)),
    ],
)
def test_prices_are_read_as_people_write_them(text: object, price: Price) -> None:
    assert units.price(text) == price


@pytest.mark.parametrize(
    "text", ["cheap", "0.39", "-1/h", "0.39/day", "$1 EUR/h", "1 gpu/h", True, -1, None, [], 10**9]
)
def test_what_is_no_price_says_how_to_write_one(text: object) -> None:
    with pytest.raises(ValueError, match=r"is not a price; write .* EUR/h for the machine, or"):
        units.price(text)


@pytest.mark.parametrize(
    ("value", "write"),
    [(95, "95%"), ("95", "95%"), ("2 samples", "2%"), (0.5, ""), (-1, "2%"), ("150%", "2%")],
)
def test_a_share_without_its_percent_sign_is_refused_with_the_right_spelling(
    value: object, write: str
) -> None:
    if not write:
        assert units.share(value) == value
        return
    with pytest.raises(ValueError, match=f"is not a share; write {write}, or a number"):
        units.share(value)
