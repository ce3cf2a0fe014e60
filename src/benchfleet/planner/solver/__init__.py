"""Which machine runs which cells, so that all are done soonest; in seconds and counts.

Machines are unrelated (each has its own time for a cell), loading a model is a set-up of each slot,
bringing it to a machine one of the machine, and machines have slots of which a cell takes several
where it needs more memory or more GPUs than one has.
"""
