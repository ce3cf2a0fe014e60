"""The results tree: every path, writing and reading."""
