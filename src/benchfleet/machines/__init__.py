"""What a machine has."""
