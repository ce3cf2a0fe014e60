"""The Hub data set: rows are kept by row groups, and memory holds only a few samples."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("huggingface_hub")
from pyarrow import parquet  # noqa: E402

from benchfleet.errors import ExportError  # noqa: E402
from benchfleet.exporters import parquet_groups  # noqa: E402
from benchfleet.exporters.hub_dataset import HubDatasetExporter  # noqa: E402
from benchfleet.exporters.hub_repository import HubRepository  # noqa: E402
from benchfleet.testing.exporter_contract import sample_results  # noqa: E402
from benchfleet.testing.sample_cells import sample_cell  # noqa: E402

GROUP, SAMPLES, TEXT = 100_000, 40, 1_000  # bytes, samples of a result, characters of an answer


class Sample(dict[str, Any]):
    """A sample that weak references can count."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def _rows(folder: Path, table: str) -> list[tuple[str, str]]:
    rows = parquet.read_table(folder / "data" / f"{table}.parquet").to_pylist()
    if table == "results":
        return [(row["campaign"], row["fingerprint"]) for row in rows]
    return [(row["fingerprint"], row["id"]) for row in rows]


def test_a_second_export_makes_no_duplicates_and_keeps_another_campaigns_rows(
    tmp_path: Path,
) -> None:
    one, two = sample_results(tmp_path / "results")
    out = tmp_path / "out"
    HubDatasetExporter(str(out), "first").put([one])
    HubDatasetExporter(str(out), "second").put([two])
    HubDatasetExporter(str(out), "second").put([two])
    expected = [("first", one.fingerprint), ("second", two.fingerprint)]
    assert _rows(out, "results") == expected
    ids = [(result.fingerprint, f"s{index}") for result in (one, two) for index in range(2)]
    assert _rows(out, "samples") == ids
    assert "Results of first, second" in (out / "README.md").read_text()


def test_an_export_holds_a_few_row_groups_and_the_samples_of_one_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count: Arrow's allocated bytes, and the samples that are alive."""
    monkeypatch.setattr(parquet_groups, "ROW_GROUP_BYTES", GROUP)
    result, _ = sample_results(tmp_path / "results")
    alive: weakref.WeakSet[Sample] = weakref.WeakSet()
    most_samples = most_bytes = 0
    start = pyarrow.total_allocated_bytes()

    def samples() -> Sequence[Mapping[str, Any]]:
        nonlocal most_samples, most_bytes
        most_samples = max(most_samples, len(alive))
        most_bytes = max(most_bytes, pyarrow.total_allocated_bytes() - start)
        made = [
            Sample(result.samples()[0], id=f"s{number}", predicted_answer=f"{number}" * TEXT)
            for number in range(SAMPLES)
        ]
        alive.update(made)
        return made

    results = [
        replace(result, cell=sample_cell(number), samples=samples) for number in range(1, 61)
    ]
    exporter = HubDatasetExporter(str(tmp_path / "out"), "study")
    exporter.put(results[:30])  # about 1.5 MB of text
    exporter.put(results[30:])
    groups = parquet.ParquetFile(tmp_path / "out/data/samples.parquet").metadata
    assert groups.num_rows == 60 * SAMPLES
    assert groups.num_row_groups >= 10
    assert most_samples <= SAMPLES
    assert most_bytes < 6 * GROUP


def test_the_repository_gets_paths_of_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: dict[str, bytes | Path] = {}
    monkeypatch.setattr(HubRepository, "write", lambda _, files: written.update(files))
    HubDatasetExporter(str(tmp_path / "out"), "study").put(sample_results(tmp_path / "results"))
    tables = [name for name, content in written.items() if isinstance(content, Path)]
    assert tables == ["data/samples.parquet", "data/results.parquet"]


@pytest.mark.parametrize("content", ["other columns", "text"])
def test_a_table_of_somebody_else_is_refused_and_stays(tmp_path: Path, content: str) -> None:
    file = tmp_path / "out/data/results.parquet"
    file.parent.mkdir(parents=True)
    if content == "text":
        file.write_text("no table")
    else:
        parquet.write_table(pyarrow.table({"fingerprint": ["a"]}), file)
    before = file.read_bytes()
    exporter = HubDatasetExporter(str(tmp_path / "out"), "study")
    with pytest.raises(ExportError, match=r"results\.parquet"):
        exporter.digests()
    with pytest.raises(ExportError, match=r"results\.parquet"):
        exporter.put(sample_results(tmp_path / "results"))
    assert file.read_bytes() == before
