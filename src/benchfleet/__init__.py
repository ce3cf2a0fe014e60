"""Runs a matrix of LLM benchmarks on whatever machines you have, and never a cell twice."""

__version__ = "0.1.0"
