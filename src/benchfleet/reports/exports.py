"""A comparison for other programs: CSV with a row an entry, and JSON with all of it."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from benchfleet.domain.state import STATES

from . import wording
from .spending import Spent
from .statistics import Difference
from .tables import Comparison, Entry

COLUMNS = (
    "model",
    "config",
    "benchmark",
    "mean",
    "stderr",
    "samples",
    "baseline",
    "difference",
    "difference_stderr",
    "difference_low",
    "difference_high",
    "difference_n",
    "p_value",
    "adjusted_p",
    "sure",
    "density",
    "tokens_per_second",
    "attempts",
    "gpu_hours",
    "energy_joules",
    "cost",
    "currency",
    "peak_ram_bytes",
    "peak_gpu_memory_bytes",
    "repeats",
    *STATES,
)
_NONE = Difference(n=0, difference=None)
_FORMULA = ("=", "+", "-", "@", "\t")  # how a cell begins that a spreadsheet would compute


def to_json(comparison: Comparison, *, title: str) -> str:
    """The comparison under its campaign's name, indented; numbers unrounded."""
    return json.dumps({"campaign": title, **comparison.to_dict()}, indent=2) + "\n"


def to_csv(comparison: Comparison) -> str:
    """A row for each model × config × benchmark; numbers unrounded, empty where there is none."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for entry in comparison.entries:
        writer.writerow(_row(entry, comparison.baseline))
    return text.getvalue()


def _row(entry: Entry, baseline: str) -> dict[str, Any]:
    difference = entry.difference or _NONE
    low, high = difference.interval or (None, None)
    return {
        "model": _named(entry.model),
        "config": _named(entry.config),
        "benchmark": _named(entry.benchmark),
        "mean": entry.mean,
        "stderr": entry.stderr,
        "samples": entry.samples,
        "baseline": _named(baseline),
        "difference": difference.difference,
        "difference_stderr": difference.stderr,
        "difference_low": low,
        "difference_high": high,
        "difference_n": difference.n if entry.difference else None,
        "p_value": difference.p_value,
        "adjusted_p": difference.adjusted_p,
        "sure": str(difference.sure).lower() if entry.difference else None,
        "density": entry.density,
        "tokens_per_second": entry.tokens_per_second,
        **_spent(entry.spent),
        "repeats": entry.repeats_expected,
        **{state: entry.states.get(state, 0) for state in STATES},
    }


def _spent(spent: Spent) -> dict[str, Any]:
    """Money in the one currency that there is; of several the JSON tells."""
    bill = spent.bill
    currency, cost = next(iter(bill.costs.items())) if bill.costs else ("", None)
    if bill.costs and len(bill.costs) > 1:
        currency, cost = "several", None
    return {
        "attempts": bill.attempts,
        "gpu_hours": bill.gpu_seconds / 3600,
        "energy_joules": bill.joules if bill.metered else None,
        "cost": cost,
        "currency": currency,
        "peak_ram_bytes": spent.ram or None,
        "peak_gpu_memory_bytes": spent.gpu_memory or None,
    }


def _named(text: str) -> str:
    """A name in one line; an apostrophe keeps a spreadsheet from computing it."""
    line = wording.one_line(text)
    return f"'{line}" if line.startswith(_FORMULA) else line
