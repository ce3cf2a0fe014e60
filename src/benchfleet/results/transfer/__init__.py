"""Results on their way between this host and the places where they are kept."""
