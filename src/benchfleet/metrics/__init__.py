"""Prometheus metrics of a run: collecting and serving them."""
