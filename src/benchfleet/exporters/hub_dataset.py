"""A data set of the Hugging Face Hub: a table of results, and one of all their samples.

Both are Parquet files, which `datasets.load_dataset(NAME, "results")` and ``"samples"`` load. The
tables keep the rows of cells that are not exported now, such as those of other campaigns.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.plain_text import markdown_text
from benchfleet.exporters.base import ExportedResult, Exporter
from benchfleet.exporters.hub_repository import HubRepository
from benchfleet.exporters.parquet_groups import (
    ColumnType,
    new_rows,
    opened,
    retained_rows,
    schema_of,
    write_groups,
)
from benchfleet.exporters.samples import as_text, question_of, targets_of
from benchfleet.exporters.score_table import Score, score_table

_RESULTS, _SAMPLES, _CARD = "data/results.parquet", "data/samples.parquet", "README.md"
_TEXT: ColumnType = "string"
_NUMBER: ColumnType = "double"
_COUNT: ColumnType = "int64"
_RESULT_COLUMNS = {
    "campaign": _TEXT,
    "model": _TEXT,
    "config": _TEXT,
    "benchmark": _TEXT,
    "subset": _TEXT,
    "repeat": _COUNT,
    "score": _NUMBER,
    "stderr": _NUMBER,
    "samples": _COUNT,
    "metrics": _TEXT,  # JSON
    "settings": _TEXT,  # JSON: what was declared
    "provenance": _TEXT,  # JSON
    "fingerprint": _TEXT,
    "digest": _TEXT,
}
_CARD_COLUMNS = ("campaign", "model", "config", "benchmark", "subset", "score", "stderr")
_SAMPLE_COLUMNS = {
    "fingerprint": _TEXT,
    "model": _TEXT,
    "config": _TEXT,
    "benchmark": _TEXT,
    "id": _TEXT,
    "index": _COUNT,
    "question": _TEXT,
    "targets": _TEXT,  # JSON
    "predicted_answer": _TEXT,
    "score": _NUMBER,
    "prompt_tokens": _COUNT,
    "completion_tokens": _COUNT,
    "seconds": _NUMBER,
    "columns": _TEXT,  # JSON: all columns of the benchmark's data
}


class HubDatasetExporter(Exporter):
    """A data set of the Hugging Face Hub, or a local folder with the same files."""

    destination: ClassVar[str] = "hf://datasets/OWNER/NAME or a folder"
    requires: ClassVar[tuple[str, ...]] = ("huggingface_hub", "pyarrow")
    extra: ClassVar[str] = "hub"

    def __init__(self, where: str, campaign: str) -> None:
        super().__init__(where or f"{campaign}-hub_dataset", campaign)
        self._repository = HubRepository(self.where, "dataset")
        name = self.where.removeprefix("hf://datasets/")
        self.hint = f'datasets.load_dataset("{name}", "results")'

    def digests(self) -> Mapping[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            file = self._repository.download(_RESULTS, Path(folder))
            rows = _results(file, ("fingerprint", "digest")) if file else []
            return {row["fingerprint"]: row["digest"] for row in rows}

    def put(self, results: Sequence[ExportedResult]) -> None:
        replaced = {result.fingerprint for result in results}
        sample_rows = (_sample_row(one, sample) for one in results for sample in one.samples())
        result_rows = (_result_row(one, self.campaign) for one in results)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            samples, table = folder / "samples.parquet", folder / "results.parquet"
            for name, file, rows, columns in (
                (_SAMPLES, samples, sample_rows, _SAMPLE_COLUMNS),
                (_RESULTS, table, result_rows, _RESULT_COLUMNS),
            ):
                schema = schema_of(columns)
                earlier = self._repository.download(name, folder / "earlier")
                retained = (
                    retained_rows(earlier, schema, "fingerprint", replaced) if earlier else ()
                )
                write_groups(file, chain(retained, new_rows(rows, schema)), schema)
            card = _card(_results(table, _CARD_COLUMNS)).encode()
            # The results come last: with them the export is whole.
            self._repository.write({_SAMPLES: samples, _CARD: card, _RESULTS: table})


def _results(file: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """These columns of a table of results."""
    with opened(file, schema_of(_RESULT_COLUMNS)) as source:
        rows: list[dict[str, Any]] = source.read([*names]).to_pylist()
        return rows


def _card(rows: Sequence[Mapping[str, Any]]) -> str:
    from huggingface_hub import DatasetCard, DatasetCardData

    tables = [("results", _RESULTS), ("samples", _SAMPLES)]
    data = DatasetCardData(
        tags=["evaluation", "benchfleet"],
        configs=[
            {"config_name": name, "data_files": [{"split": "train", "path": file}]}
            for name, file in tables
        ],
    )
    campaigns = sorted({row["campaign"] for row in rows})
    parts = [f"# Results of {markdown_text(', '.join(campaigns))}", "Exported by benchfleet."]
    for model in sorted({row["model"] for row in rows}):
        scores = [Score.of(row) for row in rows if row["model"] == model]
        parts += [f"## {markdown_text(model)}", score_table(scores)]
    text = "\n\n".join(parts)
    return str(DatasetCard(f"---\n{data.to_yaml()}\n---\n\n{text}\n"))


def _result_row(result: ExportedResult, campaign: str) -> dict[str, Any]:
    cell = result.cell
    return {
        "campaign": campaign,
        "model": cell.model.name,
        "config": cell.config.name,
        "benchmark": cell.workload.name,
        "subset": cell.workload.subset,
        "repeat": cell.repeat,
        "score": result.score,
        "stderr": result.stderr,
        "samples": result.scored_samples,
        "metrics": json.dumps(result.metrics),
        "settings": json.dumps(cell.identity()),
        "provenance": json.dumps(result.provenance),
        "fingerprint": result.fingerprint,
        "digest": result.digest,
    }


def _sample_row(result: ExportedResult, sample: Mapping[str, Any]) -> dict[str, Any]:
    cell = result.cell
    return {
        "fingerprint": result.fingerprint,
        "model": cell.model.name,
        "config": cell.config.name,
        "benchmark": cell.workload.label,
        "id": as_text(str(sample["id"])),
        "index": sample["index"],
        "question": question_of(sample),
        "targets": json.dumps(targets_of(sample)),
        "predicted_answer": as_text(sample["predicted_answer"]),
        "score": sample.get("score"),
        "prompt_tokens": sample.get("prompt_tokens"),
        "completion_tokens": sample.get("completion_tokens"),
        "seconds": sample.get("seconds"),
        "columns": json.dumps(sample.get("columns") or {}),
    }
