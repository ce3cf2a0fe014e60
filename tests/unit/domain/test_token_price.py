from __future__ import annotations

import pytest

from benchfleet.domain.token_price import TokenPrice
from benchfleet.domain.units import money


def test_tokens_cost_their_share_of_a_million() -> None:
    price = TokenPrice.of({"price": {"in": "0.50 USD", "out": "$2"}} | {"url": "http://x"})
    assert price is None  # two currencies
    price = TokenPrice.of({"price": {"in": "0.50 USD", "out": "2 USD"}})
    assert price is not None
    assert price.cost(1_000_000, 500_000) == 1.5
    assert price.currency == "USD"


@pytest.mark.parametrize("settings", [{}, {"price": None}, {"price": {"in": "free"}}])
def test_without_a_valid_price_there_is_none(settings: dict[str, object]) -> None:
    assert TokenPrice.of(settings) is None


@pytest.mark.parametrize("text", ["20 USD", "USD 20", "20USD"])
def test_money_has_an_amount_and_a_currency(text: str) -> None:
    assert money(text) == (20.0, "USD")


@pytest.mark.parametrize("text", ["20", "USD", "$20 USD", 20, "-1 USD"])
def test_other_texts_are_no_money(text: object) -> None:
    with pytest.raises(ValueError, match="is not an amount of money"):
        money(text)
