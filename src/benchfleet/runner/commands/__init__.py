"""A person's orders to a run: devices added, drained and removed."""
