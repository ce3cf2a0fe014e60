"""One file a verb of the command line: `benchfleet run` is `run.py`."""
