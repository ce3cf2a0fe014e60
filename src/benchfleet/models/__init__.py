"""Adapters: models kept loaded, asked for answers."""
