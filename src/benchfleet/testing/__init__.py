"""Contract suites and test doubles for those who extend benchfleet."""

try:
    import pytest
except ImportError as error:
    raise ImportError(
        "benchfleet.testing needs pytest: pip install 'benchfleet[testing]'"
    ) from error

pytest.register_assert_rewrite("benchfleet.testing.contract")

from .claims import claim_any  # noqa: E402
from .clock import FakeClock  # noqa: E402
from .ledger_contract import LedgerContract  # noqa: E402
from .sample_cells import sample_cell  # noqa: E402

__all__ = ["FakeClock", "LedgerContract", "claim_any", "sample_cell"]
