from __future__ import annotations

from benchfleet.domain.budget import Budget, Spending
from benchfleet.domain.usage import Usage


def test_a_budget_is_spent_by_costs_of_its_currency() -> None:
    budget = Budget(amount=5, currency="USD", spending=Spending(attempts=3))
    assert budget.problem == ""
    budget.spend(Usage(seconds=1))
    budget.spend(Usage(seconds=1, cost=9, currency="EUR"))
    assert budget.spending.total == 3
    budget.spend(Usage(seconds=1, cost=2, currency="USD"))
    assert budget.problem.startswith("the budget of 5 USD is spent (5.00 USD)")


def test_attempts_and_rentals_share_one_budget() -> None:
    spending = Spending(attempts=3)
    budget = Budget(amount=5, currency="USD", spending=spending)
    spending.rentals = 1.9
    assert budget.problem == ""
    spending.rentals = 2.1
    assert "(5.10 USD)" in budget.problem


def test_a_budget_that_is_nearly_spent_is_not_spent() -> None:
    budget = Budget(amount=10, currency="USD", spending=Spending(attempts=7.9))
    assert (budget.state, budget.text) == ("open", "79 % of the budget of 10 USD is spent")
    budget.spending.attempts = 8
    text = "80 % of the budget of 10 USD is spent; no cell begins once all is"
    assert (budget.state, budget.text) == ("nearly_spent", text)
    budget.spending.attempts = 10
    assert (budget.state, budget.text) == ("spent", budget.problem)
    expected = {"amount": 10, "currency": "USD", "spent": 10, "state": "spent"}
    assert budget.to_dict() == expected
