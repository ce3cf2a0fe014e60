"""Which models a machine can hold, by their size alone."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.machines.memory import memory_for_weights

_SIZES = (0.5, 1, 1.5, 3, 7, 8, 14, 32, 70, 120)  # 10⁹ parameters, as models are made
_BITS = (16, 8, 4)


def sizes_that_fit(memory: int, *, on_gpu: bool) -> list[str]:
    """The largest usual model at 16, 8 and 4 bits in so many bytes, such as ``7B at 4 bits``;
    one that fits at more bits is not named again at fewer."""
    labels: list[str] = []
    best = 0.0
    for bits in _BITS:
        fitting = [
            size
            for size in _SIZES
            if memory_for_weights(round(size * 1e9) * bits // 8, "gpu" if on_gpu else "cpu")
            <= memory
        ]
        if fitting and fitting[-1] > best:
            best = fitting[-1]
            labels.append(f"{best:g}B at {bits} bits")
    return labels


def largest_memory(ram: int, vrams: Sequence[int]) -> tuple[int, bool]:
    """Bytes that one model can have, and whether that is a GPU's."""
    return (max(vrams), True) if vrams else (ram, False)
