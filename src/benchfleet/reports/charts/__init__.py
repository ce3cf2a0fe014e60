"""The charts of a report, one kind a file, each defined once for pages, images and notebooks."""
