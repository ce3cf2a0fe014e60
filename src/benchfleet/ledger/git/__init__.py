"""A ledger in a git repository: a mirror in SQLite, and pushes that compare and swap."""
