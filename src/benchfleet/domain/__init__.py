"""The words of benchfleet as frozen values; no I/O."""
