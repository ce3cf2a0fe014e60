"""The capability report of a machine: looked at, measured, judged by rule, and read again."""
