"""Contract suites and test doubles for those who extend benchfleet."""
