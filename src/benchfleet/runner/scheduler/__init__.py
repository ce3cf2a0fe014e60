"""What waits to be run: for which slot, in which order, and what keeps it from one."""
