"""The slots that are open, what each takes of its device, and how many a device has."""
