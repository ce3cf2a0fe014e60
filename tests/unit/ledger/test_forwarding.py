"""A ledger that wraps another one passes on what the other can do."""

from __future__ import annotations

import threading

from benchfleet.ledger.base import Ledger
from benchfleet.ledger.forwarding import ForwardingLedger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.execution.retrying_ledger import RetryingLedger


def test_every_optional_member_of_a_ledger_is_passed_on() -> None:
    required = Ledger.__abstractmethods__
    optional = {
        name
        for name, member in vars(Ledger).items()
        if callable(member) and not name.startswith("_") and name not in required
    }
    assert optional - vars(ForwardingLedger).keys() == {"finish"}  # it calls finish_all


def test_every_property_of_a_ledger_is_passed_on() -> None:
    ledger = MemoryLedger()
    vars(ledger).update({name: f"its {name}" for name in Ledger.__annotations__})
    wrapper = RetryingLedger(ledger, post=lambda news: None, ending=threading.Event())
    assert {name: getattr(wrapper, name) for name in Ledger.__annotations__} == {
        name: f"its {name}" for name in Ledger.__annotations__
    }
