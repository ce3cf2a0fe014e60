"""A comparison for other programs: CSV with a row an entry or suite, and JSON with all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from benchfleet.domain.plain_text import one_line
from benchfleet.domain.state import STATES
from benchfleet.errors import MissingExtra

from .csv_lines import csv_lines
from .spending import Spent
from .statistics import Difference
from .suites import SuiteScore
from .tables import Comparison, Entry

COLUMNS = (
    "model",
    "config",
    "benchmark",
    "kind",
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


def to_json(comparison: Comparison, *, title: str) -> str:
    """The comparison under its campaign's name; numbers unrounded, one line for each item of a
    list."""
    lines = [f'  "campaign": {json.dumps(title)}']
    for name, value in comparison.values():
        if isinstance(value, (list, Iterator)):
            items = ",\n".join(f"    {json.dumps(item)}" for item in value)
            text = f"[\n{items}\n  ]" if items else "[]"
        else:
            text = json.dumps(value)
        lines.append(f"  {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def to_csv(comparison: Comparison) -> str:
    """A row for each model × config × benchmark, then one for each model × config × suite; numbers
    unrounded, empty where there is none."""
    return "".join(csv_lines(COLUMNS, _rows(comparison)))


def to_parquet(comparison: Comparison) -> bytes:
    """The rows of the CSV as Parquet. Raises `MissingExtra` without the extra ``report``."""
    if find_spec("pyarrow") is None:
        raise MissingExtra("Parquet needs pyarrow; pip install 'benchfleet[report]'")
    import pyarrow
    from pyarrow import parquet

    rows = _rows(comparison)
    columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
    columns["sure"] = [None if one is None else one == "true" for one in columns["sure"]]
    table = pyarrow.table(columns)
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def _rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The entries, then the suites, which have fewer columns."""
    entries = [_row(entry, comparison.baseline) for entry in comparison.entries]
    return [*entries, *(_suite_row(one, comparison.baseline) for one in comparison.suites)]


def _suite_row(score: SuiteScore, baseline: str) -> dict[str, Any]:
    return {
        "model": one_line(score.model),
        "config": one_line(score.config),
        "benchmark": one_line(score.suite),
        "kind": "suite",
        "mean": score.mean,
        "stderr": score.stderr,
        "samples": score.samples,
        **_compared(score.difference, baseline),
    }


def _row(entry: Entry, baseline: str) -> dict[str, Any]:
    return {
        "model": one_line(entry.model),
        "config": one_line(entry.config),
        "benchmark": one_line(entry.benchmark),
        "kind": "benchmark",
        "mean": entry.mean,
        "stderr": entry.stderr,
        "samples": entry.samples,
        **_compared(entry.difference, baseline),
        "density": entry.density,
        "tokens_per_second": entry.tokens_per_second,
        **_spent(entry.spent),
        "repeats": entry.repeats_expected,
        **{state: entry.states.get(state, 0) for state in STATES},
    }


def _compared(value: Difference | None, baseline: str) -> dict[str, Any]:
    difference = value or _NONE
    low, high = difference.interval or (None, None)
    return {
        "baseline": one_line(baseline),
        "difference": difference.difference,
        "difference_stderr": difference.stderr,
        "difference_low": low,
        "difference_high": high,
        "difference_n": difference.n if value else None,
        "p_value": difference.p_value,
        "adjusted_p": difference.adjusted_p,
        "sure": str(difference.sure).lower() if value else None,
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
