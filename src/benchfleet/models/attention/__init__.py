"""Attention configs for a loaded transformers model, one a file."""
