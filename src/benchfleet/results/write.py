"""An attempt's folder: filled while the cell runs, sealed, then published by one rename.

Publication has three steps, and the ledger's is the middle one: `AttemptFolder.seal` writes and
syncs everything with a manifest of digests, the ledger commits the manifest's digest, and
`publish` renames the folder to its public path. A crash after the second step is mended by
doing the third again; a crash before it leaves an unpublished folder.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.domain.names import path_part
from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.summary import summarise

FORMAT = 1  # of cell.json and its neighbours
_OURS = frozenset({names.CELL, names.SAMPLES, names.LOG, names.FAILURE})


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an attempt that ended well has to say, besides its samples."""

    score: Mapping[str, Any]  # overall, per_sample, tasks, summary
    seconds: Mapping[str, float]
    provenance: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """An attempt whose files are complete and synced."""

    digest: str  # SHA-256 of cell.json
    metrics: Mapping[str, float]  # the summary that the ledger keeps too


class AttemptFolder:
    """One attempt's files while it runs. Written by the runner alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / names.LOG
        self._samples = open(folder / names.SAMPLES, "ab", buffering=0)  # noqa: SIM115

    def record(self, lines: bytes) -> None:
        """Append samples, as JSON lines; with the kernel when this returns."""
        self._samples.write(lines)

    def append(self, name: str, data: bytes) -> None:
        """Append a piece of a file that the slot sent. Refuses names that leave the folder, and
        those that are the runner's to write."""
        parts = name.split("/")
        try:
            safe = [path_part(part) for part in parts] == parts and name not in _OURS
        except ValueError:
            safe = False
        if not safe:
            raise ResultsError(f"a slot may not write a result file named {name!r}")
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "ab") as opened:
            opened.write(data)

    def fail(self, failure: Failure) -> None:
        """Leave the reason beside what the attempt wrote."""
        self._samples.close()
        _write(self.folder / names.FAILURE, _pretty(failure.to_dict()))

    def close(self) -> None:
        """End it as it stands; its samples serve the next attempt."""
        self._samples.close()

    def seal(self, cell: Cell, path: str, verdict: Verdict) -> Sealed:
        """Write what remains, and sync all of it.

        Raises ValueError, KeyError or TypeError where the score is not what a score must be.
        """
        self._samples.close()
        records = list(read_samples(self.folder / names.SAMPLES).values())
        records.sort(key=lambda record: int(record["index"]))
        scores = verdict.score["per_sample"]
        metrics = summarise(verdict.score, records)
        if len(scores) == len(records):
            records = [{**r, "score": s} for r, s in zip(records, scores, strict=True)]
        files = {
            names.SAMPLES: "".join(json.dumps(record) + "\n" for record in records),
            names.RAW_RESULTS: _raw_results(records),
            names.METRICS: _pretty(
                {
                    "overall_score": verdict.score["overall"],
                    "task_scores": verdict.score["tasks"],
                    "summary": {**verdict.score["summary"], **metrics},
                }
            ),
            names.CONFIG: _pretty(_config(cell)),
        }
        for name, text in files.items():
            if (
                name == names.SAMPLES or not (self.folder / name).exists()
            ):  # else the benchmark's own
                _write(self.folder / name, text)
        self.log.touch()
        digests = {}
        for file in sorted(self.folder.rglob("*")):
            if file.is_dir():
                _sync_folder(file)
            else:
                digests[file.relative_to(self.folder).as_posix()] = _sync_and_digest(file)
        sealed = _pretty(
            {
                "format": FORMAT,
                "id": cell.id,
                "fingerprint": cell.fingerprint,
                "path": path,
                "cell": cell.to_dict(),
                "metrics": metrics,
                "seconds": verdict.seconds,
                "provenance": verdict.provenance,
                "files": digests,
            }
        )
        _write(self.folder / names.CELL, sealed)
        digest = _sync_and_digest(self.folder / names.CELL)
        _sync_folder(self.folder)
        return Sealed(digest=digest, metrics=metrics)


def publish(folder: Path, public: Path) -> None:
    """Rename a sealed folder to its public path; durable when this returns.

    Raises ResultsError where something else lies there: nothing is ever overwritten.
    """
    public.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(folder, public)
    except OSError as error:
        if not folder.exists() and public.exists():
            return  # another runner, opening the campaign, was quicker
        raise ResultsError(
            f"{public} cannot be published ({error.strerror}); the sealed result waits in {folder}."
            " Move what lies there and run again."
        ) from error
    _sync_folder(public.parent)
    try:
        folder.parent.rmdir()
    except OSError:
        return  # earlier attempts of the cell lie there; they are evidence


def read_samples(file: Path) -> dict[int, dict[str, Any]]:
    """The samples recorded in a file, by index; a line torn by a crash is passed over."""
    records: dict[int, dict[str, Any]] = {}
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return records
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("index"), int):
            records[record["index"]] = record
    return records


def earlier_samples(folder: Path) -> bytes:
    """What earlier attempts of a cell recorded, as JSON lines: the attempt that got furthest."""
    best: dict[int, dict[str, Any]] = {}
    if folder.is_dir():
        for attempt in folder.iterdir():
            found = read_samples(attempt / names.SAMPLES)
            if len(found) > len(best):
                best = found
    return "".join(json.dumps(record) + "\n" for record in best.values()).encode()


def write_atomically(file: Path, value: Any) -> None:
    """Replace a JSON file in one step, so that no reader sees half of it."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    _write(beside, _pretty(value))
    os.replace(beside, file)


def _config(cell: Cell) -> dict[str, Any]:
    """config.json, in the words of the earlier tools."""
    return {
        "model_name": cell.model.name,
        "adapter_name": cell.model.adapter,
        "model_kwargs": dict(cell.model.model_kwargs),
        "tokenizer_kwargs": dict(cell.model.tokenizer_kwargs),
        "generation_kwargs": dict(cell.workload.generation),
        "sparse_config_name": cell.config.name,
        "sparse_attention_config": cell.config.identity() if cell.config.attention else None,
        "benchmark_name": cell.workload.benchmark,
        "benchmark_version": cell.workload.version,
        "subset": cell.workload.subset,
        "params": dict(cell.workload.params),
        "limit": cell.workload.limit,
        "batch_size": cell.workload.batch_size,
        "repeat": cell.repeat,
        "seed": cell.data_seed,
    }


def _raw_results(records: Iterable[Mapping[str, Any]]) -> str:
    """The dataset's columns and the answer; every field quoted, newlines escaped."""
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
    return text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")


def _sync_and_digest(file: Path) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as opened:
        while piece := opened.read(2**20):
            digest.update(piece)
        os.fsync(opened.fileno())
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def log_tail(log: Path, *, lines: int = 20, most: int = 8192) -> str:
    """The last lines of a log, at most `most` bytes of them: a log may be one huge line."""
    try:
        with open(log, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - most))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
