"""A data set of the Hugging Face Hub: a table of results, and one of all their samples.

Both are Parquet files, which `datasets.load_dataset(NAME, "results")` and ``"samples"`` load. The
tables keep the rows of cells that are not exported now, such as those of other campaigns.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchfleet.exporters.base import ExportedResult, Exporter
from benchfleet.exporters.hub_repository import HubRepository
from benchfleet.exporters.samples import as_text, question_of, targets_of
from benchfleet.exporters.score_table import Score, score_table

_RESULTS, _SAMPLES, _CARD = "data/results.parquet", "data/samples.parquet", "README.md"
_TEXT, _NUMBER, _COUNT = "string", "double", "int64"
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
        return {row["fingerprint"]: row["digest"] for row in self._rows(_RESULTS)}

    def put(self, results: Sequence[ExportedResult]) -> None:
        replaced = {result.fingerprint for result in results}
        rows = [row for row in self._rows(_RESULTS) if row["fingerprint"] not in replaced]
        rows += [_result_row(result, self.campaign) for result in results]
        samples = [row for row in self._rows(_SAMPLES) if row["fingerprint"] not in replaced]
        for result in results:
            samples += [_sample_row(result, sample) for sample in result.samples()]
        self._repository.write(
            {
                _SAMPLES: _parquet(samples, _SAMPLE_COLUMNS),
                _CARD: self._card(rows).encode(),
                _RESULTS: _parquet(rows, _RESULT_COLUMNS),  # last: with it the export is whole
            }
        )

    def _rows(self, name: str) -> list[dict[str, Any]]:
        content = self._repository.read(name)
        if content is None:
            return []
        from pyarrow import parquet

        rows: list[dict[str, Any]] = parquet.read_table(io.BytesIO(content)).to_pylist()
        return rows

    def _card(self, rows: Sequence[Mapping[str, Any]]) -> str:
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
        parts = [f"# Results of {', '.join(campaigns)}", "Exported by benchfleet."]
        for model in sorted({row["model"] for row in rows}):
            scores = [Score.of(row) for row in rows if row["model"] == model]
            parts += [f"## {model}", score_table(scores)]
        text = "\n\n".join(parts)
        return str(DatasetCard(f"---\n{data.to_yaml()}\n---\n\n{text}\n"))


def _parquet(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    types = {_TEXT: pyarrow.string(), _NUMBER: pyarrow.float64(), _COUNT: pyarrow.int64()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist([*rows], schema=schema), sink)
    return bytes(sink.getvalue())


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
        "samples": result.summary.get("samples"),
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
