"""Contract suites and test doubles for those who extend benchfleet."""

try:
    import pytest
except ImportError as error:
    raise ImportError(
        "benchfleet.testing needs pytest: pip install 'benchfleet[testing]'"
    ) from error

_SUITES = ("contract", "adapter_contract", "exporter_contract")
pytest.register_assert_rewrite(*(f"benchfleet.testing.{suite}" for suite in _SUITES))

from .adapter_contract import AdapterContract  # noqa: E402
from .claims import claim_any  # noqa: E402
from .clock import FakeClock  # noqa: E402
from .exporter_contract import ExporterContract  # noqa: E402
from .ledger_contract import LedgerContract  # noqa: E402
from .sample_cells import sample_cell  # noqa: E402

__all__ = [
    "AdapterContract",
    "ExporterContract",
    "FakeClock",
    "LedgerContract",
    "claim_any",
    "sample_cell",
]
