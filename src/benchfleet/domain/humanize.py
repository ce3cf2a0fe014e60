"""Counts, durations and sizes, as people write them."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, noun: str, verb: str = "") -> str:
    """``1 cell``, ``2 cells``; with a verb (as of many): ``1 cell waits``, ``2 cells wait``."""
    many = f"{count} {noun}" if count == 1 else f"{count} {noun}s"
    if not verb:
        return many
    irregular = {"are": "is", "have": "has", "go": "goes", "were": "was"}
    return f"{many} {irregular.get(verb, f'{verb}s') if count == 1 else verb}"


def examples(names: Iterable[str], most: int = 3) -> str:
    """``a, b``; of many names the first ones: ``a, b, c and 9 more``."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def duration(seconds: float) -> str:
    """``0.4 s``, ``52 s``, ``3 min 05 s``, ``3 h 10 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def sized(size: int) -> str:
    """``812 B``, ``64 kB``, ``1.2 MB``, ``640 MB``, ``31.2 GB`` for a number of bytes."""
    if size >= 999_500_000:
        return f"{size / 1e9:.1f} GB"
    if size >= 9_950_000:
        return f"{size / 1e6:.0f} MB"
    if size >= 999_500:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e3:.0f} kB" if size >= 1000 else f"{size} B"


def gigabytes(size: int) -> str:
    """``0.4 GB``, ``31.2 GB``."""
    return f"{size / 1e9:.1f} GB"
