"""Where results are exported to: one file for each tool or format."""
