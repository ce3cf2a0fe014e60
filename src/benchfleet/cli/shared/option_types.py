"""Numbers on the command line: read, and refused with what to write instead."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def count(text: str) -> int:
    """A whole number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= 10**9:
        raise argparse.ArgumentTypeError(f"invalid count {text!r}: use a whole number from 1")
    return number


def number(most: float, expected: str) -> Callable[[str], float]:
    """A number above 0 and up to `most`; `expected` names it, with ``{}`` for a wrong text,
    and says what to write."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"invalid {expected.format(repr(text))}")
        return value

    return read
