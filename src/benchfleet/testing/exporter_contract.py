"""What every exporter must do, as a suite that any exporter can be put through.

Derive from `ExporterContract` in a test module, and say how to open the exporter and how to read
what it wrote::

    class TestMyExporter(ExporterContract):
        def open(self, folder: Path) -> Exporter:
            return MyExporter(str(folder / "out"), "study")

        def read(self, folder: Path) -> list[tuple[str, float]]:
            return [(one["fingerprint"], one["score"]) for one in my_reader(folder / "out")]

`read` is to use the other tool's own reader. It returns the fingerprint and the score of each
result that the tool shows, duplicates too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchfleet.exporters.base import ExportedResult, Exporter
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing.sample_cells import sample_cell

HOSTILE = ["\0", "\u202e", "😀" * 50, "<script>alert(1)</script>", "---\n| [red]{x}%s\\", ""]
_IMPORTS = "import sys, {module}; print([n for n in {heavy} if n in sys.modules])"


def sample_results(folder: Path, answers: Sequence[str] = ("Paris", "4")) -> list[ExportedResult]:
    """Two sealed results below a folder, with a sample for each of these answers."""
    return [_sealed(folder, number, answers) for number in (1, 2)]


def _sealed(root: Path, number: int, answers: Sequence[str]) -> ExportedResult:
    cell = sample_cell(number)
    samples: list[dict[str, Any]] = [
        {
            "index": index,
            "id": f"s{index}",
            "columns": {"question": f"question {index}?", "answer": "Paris"},
            "predicted_answer": answer,
            "prompt_tokens": 7,
            "completion_tokens": 1,
            "seconds": 0.5,
            "score": float(answer == "Paris"),
        }
        for index, answer in enumerate(answers)
    ]
    attempt = AttemptFolder(root / f"attempt{number}")
    scores = [sample["score"] for sample in samples]
    for sample in samples:
        attempt.record(_line(sample))
    score = {"overall": sum(scores) / len(scores), "per_sample": scores, "tasks": {"easy": 0.25}}
    provenance = {"host": "lab1", "benchfleet": "0.1.0"}
    verdict = Verdict(score={**score, "summary": {}}, seconds={"load": 1.0}, provenance=provenance)
    sealed = attempt.seal(cell, str(cell.id), verdict)
    return ExportedResult(
        cell=cell,
        path=str(cell.id),
        digest=sealed.digest,
        score=score["overall"],
        stderr=0.125,
        summary={"samples": len(samples), "prompt_tokens": 14.0},
        tasks={"easy": 0.25},
        provenance=provenance,
        seconds={"load": 1.0},
        began=1_700_000_000.0 + number,
        ended=1_700_000_001.0 + number,
        folder=attempt.folder,
        samples=lambda: samples,
    )


def _line(sample: Mapping[str, Any]) -> bytes:
    unscored = {name: value for name, value in sample.items() if name != "score"}
    return json.dumps(unscored).encode() + b"\n"


class ExporterContract:
    """The behaviour of an exporter; see `benchfleet.exporters.base`."""

    heavy: ClassVar[tuple[str, ...]] = ()  # modules that importing the exporter must not import

    def open(self, folder: Path) -> Exporter:
        """The exporter with a destination that belongs to this folder."""
        raise NotImplementedError

    def read(self, folder: Path) -> list[tuple[str, float]]:
        """Fingerprint and score of each result that the tool's own reader shows."""
        raise NotImplementedError

    def test_results_are_exported_once(self, tmp_path: Path) -> None:
        one, two = sample_results(tmp_path / "results")
        exporter = self.open(tmp_path)
        assert dict(exporter.digests()) == {}
        exporter.put([one, two])
        expected = {one.fingerprint: one.digest, two.fingerprint: two.digest}
        assert dict(self.open(tmp_path).digests()) == expected
        scores = sorted((result.fingerprint, result.score) for result in (one, two))
        assert sorted(self.read(tmp_path)) == scores

        again = replace(one, digest="0" * 64, score=0.75, ended=one.ended + 60)
        self.open(tmp_path).put([again])
        assert self.open(tmp_path).digests()[one.fingerprint] == "0" * 64
        scores = sorted([(again.fingerprint, 0.75), (two.fingerprint, two.score)])
        assert sorted(self.read(tmp_path)) == scores

    def test_an_interrupted_export_goes_on_without_duplicates(self, tmp_path: Path) -> None:
        one, two = sample_results(tmp_path / "results")
        with pytest.raises(KeyboardInterrupt):
            self.open(tmp_path).put(_Interrupted([one]))
        exporter = self.open(tmp_path)
        present = exporter.digests()
        assert two.fingerprint not in present
        exporter.put([result for result in (one, two) if result.fingerprint not in present])
        assert sorted(fingerprint for fingerprint, _ in self.read(tmp_path)) == sorted(
            [one.fingerprint, two.fingerprint]
        )

    def test_hostile_answers_harm_nothing(self, tmp_path: Path) -> None:
        one, _ = sample_results(tmp_path / "results", HOSTILE)
        self.open(tmp_path).put([one])
        assert self.read(tmp_path) == [(one.fingerprint, one.score)]

    def test_it_is_described_and_imports_nothing_heavy(self, tmp_path: Path) -> None:
        exporter = self.open(tmp_path)
        kind = type(exporter)
        assert kind.destination
        assert exporter.where
        assert kind.__doc__
        assert not kind.requires or kind.extra
        code = _IMPORTS.format(module=kind.__module__, heavy=self.heavy or kind.requires)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "[]"


class _Interrupted(list[ExportedResult]):
    """Results after which somebody presses Ctrl-C."""

    def __iter__(self) -> Iterator[ExportedResult]:
        yield from super().__iter__()
        raise KeyboardInterrupt
