"""Repairs and rescores published results."""
