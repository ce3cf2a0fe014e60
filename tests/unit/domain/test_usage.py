"""What attempts used up adds up, and what is not known of it is counted too."""

from __future__ import annotations

import pytest

from benchfleet.domain.token_price import TokenPrice
from benchfleet.domain.usage import Rate, Usage, UsageTotal


def test_a_slot_costs_its_rate() -> None:
    rate = Rate(gpus=0.5, cost=0.6, currency="EUR")
    used = Usage.at(rate, 1800, joules=7.0, ram=5)
    assert (used.cost, used.currency, used.gpus, used.joules, used.ram) == (0.3, "EUR", 0.5, 7.0, 5)
    assert Usage.from_dict(used.to_dict()) == used
    assert Usage.at(Rate(), 5).to_dict() == {"seconds": 5}


def test_the_cost_of_tokens_is_kept_apart_from_that_of_the_machine() -> None:
    """97 requests of 64 and 16 tokens, at 0.10 and 0.40 USD for a million: 0.80 USD for a million
    tokens of answers, however long it took."""
    price = TokenPrice(prompt=0.10, completion=0.40, currency="USD")
    cost = price.cost(97 * 64, 97 * 16)
    for seconds in (8, 9, 3600):
        served = Usage.at(Rate(), seconds).with_tokens(97 * 16, cost, "USD")
        assert served.token_cost_per_million == pytest.approx(0.80, rel=1e-12)
        assert (served.machine_cost, served.price_per_hour) == (0.0, None)
    both = Usage.at(Rate(cost=3.6, currency="USD"), 1800).with_tokens(97 * 16, cost, "USD")
    assert both.cost == pytest.approx(1.8 + cost)
    assert both.price_per_hour == pytest.approx(3.6)
    assert both.token_cost_per_million == served.token_cost_per_million
    assert Usage.from_dict(both.to_dict()) == both
    other = Usage.at(Rate(cost=3.6, currency="EUR"), 1800).with_tokens(5, cost, "USD")
    assert (other.cost, other.currency, other.machine_cost) == (cost, "USD", 0.0)


def test_what_another_version_wrote_is_read_as_far_as_it_is_known() -> None:
    assert Usage.from_dict({"seconds": 3, "carbon": 9}) == Usage(seconds=3)
    assert Usage.from_dict({}) == Usage(seconds=0)
    odd = {"seconds": "x", "cost": float("nan"), "ram": True, "joules": -1, "currency": "\x1b[2J"}
    assert Usage.from_dict(odd) == Usage(seconds=0)


def test_a_bill_keeps_currencies_apart_and_says_what_it_does_not_know() -> None:
    bill = UsageTotal()
    bill.add(Usage(seconds=3600, gpus=1, joules=100, cost=2, currency="EUR"))
    bill.add(Usage(seconds=3600, gpus=1, cost=1, currency="$"))
    bill.add(Usage(seconds=7200))
    bill.add(None)
    total = UsageTotal()
    total.take(bill)
    assert total == bill
    assert total.to_dict() == {
        "attempts": 4,
        "slot_hours": 4,
        "gpu_hours": 2,
        "energy_joules": 100,
        "energy_covers": 0.5,
        "cost": {"EUR": 2, "$": 1},
        "attempts_without_price": 1,
        "attempts_unrecorded": 1,
    }


def test_a_bill_without_gpus_and_prices_speaks_of_neither() -> None:
    bill = UsageTotal()
    bill.add(Usage(seconds=36))
    assert bill.to_dict() == {"attempts": 1, "slot_hours": 0.01, "gpu_hours": 0}
