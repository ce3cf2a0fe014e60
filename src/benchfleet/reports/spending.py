"""What a campaign took: attempts, GPU-hours, energy, money and memory, in values and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted, sized
from benchfleet.domain.rental import RentalCost
from benchfleet.domain.usage import UsageTotal

_JOULES_PER_WATT_HOUR = 3600.0  # joules
_COMPLETE_SHARE = 0.995  # of the GPU time: as good as all of it


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What one model × config took, all attempts of its cells together."""

    model: str
    config: str
    bill: UsageTotal = field(default_factory=UsageTotal)
    ram: int = 0  # bytes that its last attempts held at most; 0: unknown, as the next
    gpu_memory: int = 0  # on one GPU

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        peaks = {"peak_ram_bytes": self.ram, "peak_gpu_memory_bytes": self.gpu_memory}
        measured = {name: size for name, size in peaks.items() if size}
        return {"model": self.model, "config": self.config, **self.bill.to_dict(), **measured}


def spending(
    pairs: Iterable[tuple[Cell, CellRecord | None]], bills: Mapping[str, UsageTotal]
) -> tuple[Spent, ...]:
    """By model × config, in the order of the cells; without those that nothing was tried of."""
    groups: dict[tuple[str, str], list[tuple[Cell, CellRecord | None]]] = {}
    for cell, record in pairs:
        groups.setdefault((cell.model.name, cell.config.name), []).append((cell, record))
    return by_config(spent_on(*names, some, bills) for names, some in groups.items())


def by_config(parts: Iterable[Spent]) -> tuple[Spent, ...]:
    """The sum for each model × config, in their order; without those that nothing was tried of."""
    groups: dict[tuple[str, str], list[Spent]] = {}
    for one in parts:
        groups.setdefault((one.model, one.config), []).append(one)
    sums = [
        Spent(
            model=model,
            config=config,
            bill=total(some),
            ram=max(one.ram for one in some),
            gpu_memory=max(one.gpu_memory for one in some),
        )
        for (model, config), some in groups.items()
    ]
    return tuple(spent for spent in sums if spent.bill.attempts)


def spent_on(
    model: str,
    config: str,
    pairs: Sequence[tuple[Cell, CellRecord | None]],
    bills: Mapping[str, UsageTotal],
) -> Spent:
    """What these cells took together."""
    total = UsageTotal()
    for cell, _ in pairs:
        if (bill := bills.get(cell.fingerprint)) is not None:
            total.take(bill)
    used = [r.outcome.usage for _, r in pairs if r and r.outcome and r.outcome.usage]
    return Spent(
        model=model,
        config=config,
        bill=total,
        ram=max((one.ram for one in used), default=0),
        gpu_memory=max((one.gpu_memory for one in used), default=0),
    )


def total(spent: Iterable[Spent]) -> UsageTotal:
    """All of it."""
    everything = UsageTotal()
    for one in spent:
        everything.take(one.bill)
    return everything


def columns(spent: Sequence[Spent]) -> dict[str, list[str]]:
    """A table's columns, each with its text for every row; those of which nothing is known are
    left out."""
    texts: dict[str, Callable[[Spent], str]] = {
        "attempts": lambda one: str(one.bill.attempts),
        "GPU-hours": lambda one: hours(one.bill.gpu_seconds),
        "energy": lambda one: energy(one.bill),
        "cost": lambda one: money(one.bill),
        "peak GPU memory": lambda one: memory(one.gpu_memory),
        "peak RAM": lambda one: memory(one.ram),
    }
    filled = {name: [text(one) for one in spent] for name, text in texts.items()}
    return {name: column for name, column in filled.items() if any(column)}


def in_all(bill: UsageTotal) -> str:
    """``14 attempts · 3.20 GPU-hours · 812 Wh · 1.25 EUR``; empty where nothing was tried."""
    if not bill.attempts:
        return ""
    gpu_hours = hours(bill.gpu_seconds)
    parts = [
        counted(bill.attempts, "attempt"),
        f"{gpu_hours} GPU-hours" if gpu_hours else "",
        energy(bill),
        money(bill),
    ]
    return " · ".join(filter(None, parts))


def sentences(bill: UsageTotal, rentals: Iterable[RentalCost]) -> list[str]:
    """What attempts used, what rented machines cost beside it, and what the numbers lack."""
    attempts = in_all(bill)
    return [*([f"{attempts}."] if attempts else []), *rented(rentals), *remarks(bill)]


def rented(costs: Iterable[RentalCost]) -> list[str]:
    """``Rented machines: $0.31, of which attempts $0.12.``; a sentence for each currency."""
    return [
        f"Rented machines: {amount(one.cost, one.currency)}, "
        f"of which attempts {amount(one.attempts, one.currency)}."
        for one in costs
    ]


def remarks(bill: UsageTotal) -> list[str]:
    """What the numbers lack."""
    sentences = []
    if bill.unrecorded:
        sentences.append(
            f"Of {bill.unrecorded} of {counted(bill.attempts, 'attempt')} time and money are "
            "not known, since their runner died or was an older benchfleet."
        )
    if bill.costs and bill.unpriced:
        sentences.append(
            f"{bill.unpriced} of {counted(bill.attempts, 'attempt')} ran where no price is known."
        )
    if bill.metered and bill.metered < _COMPLETE_SHARE * bill.gpu_seconds:
        share = f"{100 * bill.metered / bill.gpu_seconds:.0f} %"
        sentences.append(f"The energy is that of {share} of the GPU time; the rest is not known.")
    return sentences


def hours(seconds: float) -> str:
    """``12.4``, ``0.36``, ``0.004``; empty for none."""
    value = seconds / 3600
    if not value:
        return ""
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def energy(bill: UsageTotal) -> str:
    """``812 J``, ``12.3 Wh``, ``1.23 kWh``; with ≥ where a part was not measured; or empty."""
    if not bill.metered:
        return ""
    at_least = "" if bill.metered >= _COMPLETE_SHARE * bill.gpu_seconds else "≥ "
    watt_hours = bill.joules / _JOULES_PER_WATT_HOUR
    if watt_hours < 1:
        return f"{at_least}{bill.joules:.0f} J"
    if watt_hours < 1000:
        return f"{at_least}{watt_hours:.{0 if watt_hours >= 100 else 1}f} Wh"
    return f"{at_least}{watt_hours / 1000:.2f} kWh"


def money(bill: UsageTotal) -> str:
    """``$1.25``, ``0.39 EUR``, ``0.0012``; several currencies with a plus; or empty."""
    return " + ".join(amount(cost, currency) for currency, cost in (bill.costs or {}).items())


def memory(size: int) -> str:
    """``31.2 GB``, ``640 MB``; empty for none."""
    return sized(size) if size else ""


def amount(cost: float, currency: str) -> str:
    """``$1.25``, ``0.39 EUR``, ``0.0012``."""
    text = (
        f"{cost:.2f}" if cost >= 1 or not cost else f"{cost:.2g}" if cost < 0.1 else f"{cost:.3f}"
    )
    if not currency:
        return text
    return f"{text} {currency}" if currency.isalpha() else f"{currency}{text}"
