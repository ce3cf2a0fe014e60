"""What becomes of claimed cells: kept sample by sample, stopped, written and published."""
