"""The serving benchmark: how a server serves under a load."""
