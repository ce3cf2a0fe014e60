"""The runs of this machine: each writes its live state, others read it."""
