"""Contract suites and test doubles for those who extend benchfleet."""

import pytest

pytest.register_assert_rewrite("benchfleet.testing.contract")

from .claims import claim_any  # noqa: E402
from .clock import FakeClock  # noqa: E402
from .ledger_contract import LedgerContract  # noqa: E402
from .samples import sample_cell  # noqa: E402
from .simulated import SimulatedFleet  # noqa: E402

__all__ = ["FakeClock", "LedgerContract", "SimulatedFleet", "claim_any", "sample_cell"]
