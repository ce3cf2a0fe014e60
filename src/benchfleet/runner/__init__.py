"""Claims cells and places them on slots."""
