"""The ledger contract as a test suite: derive from it to test your ledger.

    class TestMyLedger(LedgerContract):
        def make_ledger(self, clock, lease):
            return MyLedger(self.folder / "my.ledger", clock=clock, lease=lease)

`make_ledger` gives a fresh ledger, once in a test. A ledger that several processes can open
also overrides `open_again`, which gives another handle on the store made last.
"""

from __future__ import annotations

from benchfleet.testing.contract.reading import Reading

from .contract.claiming import Claiming
from .contract.enrolling import Enrolling
from .contract.finishing import Finishing
from .contract.holding import Holding
from .contract.splitting import Splitting
from .contract.subjects import Subjects


class LedgerContract(Enrolling, Claiming, Holding, Finishing, Splitting, Reading, Subjects):
    """Every sentence of `benchfleet.ledger.base`, checked through the public verbs."""
