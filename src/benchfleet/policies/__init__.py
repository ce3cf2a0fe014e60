"""Which waiting cells a free slot is to be given: placement policies, one a file."""
