"""Work without the search for garbage that Python does again and again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def no_collection() -> Iterator[None]:
    """For what makes millions of values that stay until its end: to look through them for garbage
    would take up to a fifth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_large(module: str) -> None:
    """Import a library of very many objects, which stay until the process ends: nothing is searched
    for garbage meanwhile, and what is there then never is. Raises what the import does."""
    if module in sys.modules:
        return
    gc.collect()
    with no_collection():
        import_module(module)
        gc.freeze()
