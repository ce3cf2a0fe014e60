"""The program that executes cells on its devices."""
