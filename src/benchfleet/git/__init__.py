"""Git as a store: objects, and refs of a remote that change by compare-and-swap alone."""
