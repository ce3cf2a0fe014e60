"""Metrics of a run for Prometheus: what is told, and where it can be fetched."""
