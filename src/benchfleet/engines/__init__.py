"""Where slots run."""
