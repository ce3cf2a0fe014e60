"""What to write instead of a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_LISTED = 20  # names in one message


def hint(word: str, known_names: Iterable[str]) -> str:
    """The near names, or else all there are: for the end of a message."""
    names = list(known_names)
    if near := get_close_matches(word, names, n=2):
        return f"did you mean {' or '.join(map(repr, near))}?"
    if not names:
        return "there are none"
    more = ", …" if len(names) > _MAX_LISTED else ""
    verb = "is" if len(names) == 1 else "are"
    return f"there {verb} {', '.join(names[:_MAX_LISTED])}{more}"
