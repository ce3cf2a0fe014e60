"""Answers that another cell has to the same requests: one with another limit, another number of
answers to each question, or other tags of reasoning."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Cell
from benchfleet.domain.names import path_part
from benchfleet.domain.question_draws import draw_id
from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.layout import Layout
from benchfleet.results.read import sealed
from benchfleet.results.samples import read_samples

_SCORING = ("score", "ended", "parsed")  # written again by the new cell's scoring


class ReusableAnswers:
    """Finds them among the published results; each folder is listed once."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._listed: dict[Path, list[str]] = {}

    def of(self, cell: Cell) -> bytes:
        """The samples that the cell may take, as JSON lines; of several results the most."""
        best: list[dict[str, Any]] = []
        for folder in self._candidates(cell):
            try:
                other = Cell.from_dict(sealed(folder)[0]["cell"])
            except (ResultsError, LookupError, TypeError):
                continue
            if other.answers_key != cell.answers_key or other.fingerprint == cell.fingerprint:
                continue
            records = read_samples(folder / names.SAMPLES).values()
            shared = list(_shared(records, other, cell))
            best = max(best, shared, key=len)
        return "".join(json.dumps(record) + "\n" for record in best).encode()

    def _candidates(self, cell: Cell) -> Iterator[Path]:
        model, config, *_ = cell.path_parts
        folder = self._layout.root / model / config
        if folder not in self._listed:
            try:
                self._listed[folder] = sorted(os.listdir(folder))
            except (FileNotFoundError, NotADirectoryError):
                self._listed[folder] = []
        name = path_part(cell.workload.full_name)
        for one in self._listed[folder]:
            if one == name or one.startswith((f"{name}+limit", f"{name}@")):
                whole = folder / one
                yield whole / f"r{cell.repeat}" if cell.repeat or cell.repeats else whole
                if not cell.repeats and cell.repeat == 0:
                    yield whole / "r0"


def _shared(records: Iterable[dict[str, Any]], other: Cell, cell: Cell) -> Iterator[dict[str, Any]]:
    """Those of the records that the cell asks too, with the cell's own indices and ids."""
    before, now = other.workload.samples_per_question, cell.workload.samples_per_question
    limit = cell.workload.limit
    for record in records:
        number, draw = divmod(record["index"], before)
        if draw >= now or (limit is not None and number >= limit) or not _is_known(record):
            continue
        question = record.get("question") or record["id"]
        values = {name: value for name, value in record.items() if name not in _SCORING}
        values |= {"index": number * now + draw, "id": draw_id(question, draw)}
        values = {name: values[name] for name in values if name not in ("question", "draw")}
        yield {**values, **({"question": question, "draw": draw} if now > 1 else {})}


def _is_known(record: Mapping[str, Any]) -> bool:
    """Whether the slot can tell that a record answers its request."""
    return bool(record.get("request") or (record.get("resume") or {}).get("asked"))
