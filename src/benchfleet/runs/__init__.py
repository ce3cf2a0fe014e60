"""Who runs a campaign on this machine, and what it does now: told by each run, seen by others."""
