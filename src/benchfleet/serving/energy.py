"""The energy of a steady window, from samples of each GPU's power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

MAX_GAP_S = 3.0  # between two samples


@dataclass(frozen=True, kw_only=True)
class Energy:
    """What the GPUs of a slot took; `reasons` say why it is not valid."""

    joules: float = 0.0
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        return not self.reasons

    @property
    def watts(self) -> float:
        """The mean power."""
        return self.joules / self.seconds if self.seconds else 0.0


def energy(
    samples: Sequence[tuple[float, Mapping[int, float | None]]], *, begin: float, end: float
) -> Energy:
    """By trapezoid for each GPU, over the samples (seconds, watts by GPU) from `begin` to `end`.

    The edges take the nearest sample. A gap over 3 s or a GPU that tells no power invalidates it.
    """
    inside = [one for one in samples if begin <= one[0] <= end]
    before = [one for one in samples if one[0] < begin][-1:]
    after = [one for one in samples if one[0] > end][:1]
    chosen = [*before, *inside, *after]
    reasons = []
    if len(chosen) < 2:
        return Energy(reasons=("there are fewer than two samples of power",))
    (first_at, first_watts), (last_at, last_watts) = chosen[0], chosen[-1]
    if first_at > begin:
        chosen.insert(0, (begin, first_watts))
    if last_at < end:
        chosen.append((end, last_watts))
    gaps = [b[0] - a[0] for a, b in pairwise(chosen)]
    if max(gaps) > MAX_GAP_S:
        reasons.append(f"no sample of power for {max(gaps):.1f} s; {MAX_GAP_S:g} s are the most")
    silent = sorted({gpu for _, watts in chosen for gpu, one in watts.items() if one is None})
    if silent:
        reasons.append(f"gpu:{silent[0]} did not tell its power")
    if not any(watts for _, watts in chosen):
        reasons.append("the slot has no GPU that tells its power")
    joules = 0.0
    for (a, was), (b, now) in pairwise(chosen):
        low, high = max(a, begin), min(b, end)
        if high <= low:
            continue
        for gpu in was.keys() & now.keys():
            first, last = was[gpu], now[gpu]
            if first is None or last is None:
                continue
            slope = (last - first) / (b - a)
            joules += (high - low) * (first + slope * ((low + high) / 2 - a))
    return Energy(joules=joules, seconds=end - begin, reasons=tuple(reasons))
