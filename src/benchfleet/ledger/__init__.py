"""Where every cell's truth is kept."""
