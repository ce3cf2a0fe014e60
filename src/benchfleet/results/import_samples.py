"""Samples of another results folder, taken over for cells of the same identity; never scores."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Cell
from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.disk import digest_of, make_folders, read_plain, write_synced
from benchfleet.results.layout import Layout
from benchfleet.results.read import published_folders, sealed
from benchfleet.results.samples import count_samples, standing

_ATTEMPT = "0-0"  # before the first attempt of a cell's own
_DRAFT = f".{names.SAMPLES}.draft"
_OPTIONAL: Mapping[str, type] = {  # kept where a line has them, as a record writes them
    "finish": str,
    "error": str,
    "reasoning": str,
    "reasoning_tokens": int,
    "thought": dict,
    "request": str,
    "question": str,
    "draw": int,
    "context": str,
}
_COUNTS = ("prompt_tokens", "completion_tokens")


@dataclass(frozen=True, kw_only=True)
class ImportedSamples:
    """What was taken over."""

    samples: int
    cells: int
    left_out: tuple[str, ...]  # what was found and not taken, with the reason


def import_samples(
    source: Path, layout: Layout, campaign: str, fingerprints: Collection[str]
) -> ImportedSamples:
    """Put the samples that `source` holds of the wanted cells (fingerprints) where their next
    attempt finds them.

    `source` is a campaign's results folder, or the one above it, or a checkpoint file: the
    execution_summary.json of such a folder, or the samples.jsonl of one cell or attempt. Both
    published cells and attempts count, by the content that identifies a cell; of several the one
    that got furthest. Raises ResultsError where there is nothing to resume from, or it is the
    campaign's own folder.
    """
    best: dict[str, bytes] = {}
    left_out: list[str] = []
    for fingerprint, file in _sources(source, layout, campaign, fingerprints, left_out):
        lines, wrong = _well_formed(file)
        if wrong:
            left_out.append(f"{wrong} lines of {file} are not samples")
        if lines.count(b"\n") > best.get(fingerprint, b"").count(b"\n"):
            best[fingerprint] = lines
    for fingerprint, lines in best.items():
        _keep(layout, fingerprint, lines)
    return ImportedSamples(
        samples=sum(map(count_samples, best.values())), cells=len(best), left_out=tuple(left_out)
    )


def _sources(
    source: Path,
    layout: Layout,
    campaign: str,
    fingerprints: Collection[str],
    left_out: list[str],
) -> Iterator[tuple[str, Path]]:
    """The files with samples of these cells, each with its fingerprint."""
    if source.name == names.SAMPLES and source.is_file():
        samples = list(_of_one_cell(source, fingerprints, left_out))
        if not samples and not left_out:
            left_out.append(f"{source}: its cell is done, or not one of those to run")
        yield from samples
        return
    folder = _summarized_folder(source) if source.is_file() else source
    if not folder.is_dir():
        raise ResultsError(f"results folder {source} not found; name the folder to resume from")
    roots = [root for root in (folder, folder / campaign) if root.is_dir()]
    if any(root.resolve() == layout.root.resolve() for root in roots):
        raise ResultsError(
            f"{source} is where this campaign keeps its results: it goes on from these by itself"
        )
    for root in roots:
        yield from _attempts(root, fingerprints)
        yield from _published(published_folders(root), fingerprints, left_out)


def _of_one_cell(
    samples: Path, fingerprints: Collection[str], left_out: list[str]
) -> Iterator[tuple[str, Path]]:
    """The samples of a published cell, or of an attempt: its folder lies in that of its cell."""
    folder = samples.absolute().parent
    if (folder / names.CELL).exists():
        yield from _published([folder], fingerprints, left_out)
    elif folder.parent.name in fingerprints:
        yield folder.parent.name, samples


def _summarized_folder(file: Path) -> Path:
    """The results folder of an execution_summary.json; it may have been moved with its folder."""
    try:
        folder = Path(json.loads(read_plain(file))["results"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise ResultsError(
            f"{file} is not a checkpoint: name a results folder, its execution_summary.json, "
            f"or the {names.SAMPLES} of a cell"
        ) from None
    return folder if folder.is_dir() else file.parent


def keep_samples(layout: Layout, fingerprint: str, file: Path) -> int:
    """Put the samples of this file where the cell's next attempt finds them; how many."""
    lines, _ = _well_formed(file)
    if lines:
        _keep(layout, fingerprint, lines)
    return count_samples(lines)


def _keep(layout: Layout, fingerprint: str, lines: bytes) -> None:
    folder = layout.attempts_of(fingerprint) / _ATTEMPT
    make_folders(folder)
    write_synced(folder, {_DRAFT: lines})
    os.replace(folder / _DRAFT, folder / names.SAMPLES)


def _attempts(root: Path, fingerprints: Collection[str]) -> Iterator[tuple[str, Path]]:
    for fingerprint in sorted(fingerprints):
        for attempt in sorted(Layout(root).attempts_of(fingerprint).glob("*")):
            yield fingerprint, attempt / names.SAMPLES


def _published(
    folders: Iterable[Path], fingerprints: Collection[str], left_out: list[str]
) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        file = folder / names.SAMPLES
        try:
            content, _ = sealed(folder)
            if content["fingerprint"] not in fingerprints:
                continue
            if Cell.from_dict(content["cell"]).fingerprint != content["fingerprint"]:
                raise ResultsError("its fingerprint is not that of its cell")
            if digest_of(file) != content["files"][names.SAMPLES]:
                raise ResultsError(f"{names.SAMPLES} is not as it was sealed")
        except (ResultsError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            left_out.append(f"{folder}: {error}")
            continue
        yield content["fingerprint"], file


def _well_formed(file: Path) -> tuple[bytes, int]:
    """The samples of a file as JSON lines without their scores, and how many lines are none; a
    last one without an end was torn by a crash, and is not counted."""
    try:
        content = read_plain(file)
    except OSError:
        return b"", 0
    samples, wrong = [], 0
    for line in content.splitlines(keepends=True):
        try:
            samples.append(_sample(json.loads(line, parse_constant=_refuse)))
        except (ValueError, LookupError, TypeError, RecursionError):
            wrong += line.endswith(b"\n")
    return _lines(standing(samples).values()), wrong


def _sample(line: Mapping[str, Any]) -> dict[str, Any]:
    """What of a line is a sample. Raises ValueError, LookupError or TypeError for none."""
    kinds = {"index": int, "id": str, "columns": dict, "predicted_answer": str}
    sample = {name: line[name] for name in kinds}
    if any(type(sample[name]) is not kind for name, kind in kinds.items()):
        raise TypeError("a sample has an index, an id, columns and an answer")
    for name in _COUNTS:
        sample[name] = line.get(name, 0)
        if type(sample[name]) is not int or sample[name] < 0:
            raise TypeError(f"{name} is a count")
    sample["seconds"] = line.get("seconds", 0.0)
    if type(sample["seconds"]) not in (int, float) or not isfinite(sample["seconds"]):
        raise TypeError("seconds are a number")
    for name in ("measures", "resume"):
        mapping = line.get(name, {})
        if type(mapping) is not dict:
            raise TypeError(f"{name} is a mapping")
        if mapping or name == "measures":
            sample[name] = mapping
    for name, optional in _OPTIONAL.items():
        if type(line.get(name)) is optional and line[name]:
            sample[name] = line[name]
    if line.get("withdrawn") is True:
        sample["withdrawn"] = True
    return sample


def _lines(samples: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(sample) + "\n" for sample in samples).encode()


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not a number of JSON")
