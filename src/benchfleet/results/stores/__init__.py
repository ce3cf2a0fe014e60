"""Remote stores of results, one module each."""
