"""Putting ledger and results right with each other, where a run did not."""
