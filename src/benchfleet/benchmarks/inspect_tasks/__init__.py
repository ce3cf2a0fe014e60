"""Tasks of Inspect, asked of the slot's model."""
