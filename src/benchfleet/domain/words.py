"""How many there are of something, as people write it."""

from __future__ import annotations


def counted(count: int, noun: str, verb: str = "") -> str:
    """``1 cell``, ``2 cells``; with a verb (as of many): ``1 cell waits``, ``2 cells wait``."""
    many = f"{count} {noun}" if count == 1 else f"{count} {noun}s"
    if not verb:
        return many
    irregular = {"are": "is", "have": "has", "go": "goes", "were": "was"}
    return f"{many} {irregular.get(verb, f'{verb}s') if count == 1 else verb}"
