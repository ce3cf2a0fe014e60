"""One attempt: how it ended, whether it is tried again, and the lease that it holds."""
