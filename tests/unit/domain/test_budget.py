from __future__ import annotations

from benchfleet.domain.budget import Budget
from benchfleet.domain.usage import Usage


def test_a_budget_is_spent_by_costs_of_its_currency() -> None:
    budget = Budget(amount=5, currency="USD", spent=3)
    assert budget.problem == ""
    assert budget.after(Usage(seconds=1)) == budget
    assert budget.after(Usage(seconds=1, cost=9, currency="EUR")) == budget
    spent = budget.after(Usage(seconds=1, cost=2, currency="USD"))
    assert spent.problem.startswith("the budget of 5 USD is spent (5.00 USD)")
