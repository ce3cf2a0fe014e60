"""The ledger contract, by what is promised."""
