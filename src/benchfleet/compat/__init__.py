"""What earlier tools wrote and called: BenchmarkExecutor, lists of phases, and their results.

Nothing below the command line imports this package.
"""
