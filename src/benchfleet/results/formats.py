"""The files of a result as text: config.json, raw_results.csv, and JSON as it is written here."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring
from typing import Any

from benchfleet.domain.cell import Cell

_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False)


def config(cell: Cell) -> dict[str, Any]:
    """config.json, in the words of the earlier tools."""
    return {
        "model_name": cell.model.name,
        "adapter_name": cell.model.adapter,
        "adapter_version": cell.model.adapter_version,
        "model_kwargs": dict(cell.model.kwargs),
        "tokenizer_kwargs": dict(cell.model.tokenizer_kwargs),
        "generation_kwargs": dict(cell.workload.generation),
        "sparse_config_name": cell.config.name,
        "sparse_attention_config": cell.config.identity() if cell.config.attention else None,
        "benchmark_name": cell.workload.benchmark,
        "benchmark_version": cell.workload.version,
        "subset": cell.workload.subset,
        "params": dict(cell.workload.params),
        "limit": cell.workload.limit,
        "batch_size": cell.workload.batch_size or "auto",
        "repeat": cell.repeat,
        "seed": cell.data_seed,
    }


def raw_results(records: Iterable[Mapping[str, Any]]) -> str:
    """The dataset's columns and the answer; every field quoted, newlines and NUL escaped."""
    rows = [
        {**record["columns"], "predicted_answer": record["predicted_answer"]} for record in records
    ]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_field(row.get(name, "")) for name in columns])
    return out.getvalue()


def _field(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace("\0", "\\0")


def pretty(value: Mapping[str, Any]) -> str:
    """JSON with a line for each key: as readable as it need be, at the speed of the C encoder."""
    lines = [f"  {encode_basestring(name)}: {_compact(value[name])}" for name in sorted(value)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    if type(value) is str:  # as most are: an encoder takes ten times as long to begin
        return encode_basestring(value)
    if value is None:
        return "null"
    return str(value) if type(value) is int else _ENCODER.encode(value)
