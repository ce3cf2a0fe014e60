"""Slurm: jobs that run a worker each, on the ledger of a campaign."""
