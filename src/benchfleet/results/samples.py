"""The samples of an attempt, as they were recorded line by line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchfleet.domain.sample_end import lacks_answer
from benchfleet.results import layout as names
from benchfleet.results.disk import read_plain

_NEXT_ATTEMPT_PREFIX = b'{"index": -'  # how a line begins that is kept for the next attempt alone


def sample_lines(file: Path | str) -> list[dict[str, Any]]:
    """The samples recorded in a file, in their order; a line torn by a crash is passed over."""
    try:
        content = read_plain(file)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        record
        for record in _values(content)
        if isinstance(record, dict) and isinstance(record.get("index"), int)
    ]


def _values(content: bytes) -> list[Any]:
    """The value of each line that is JSON. All are read at once, unless one of them is torn."""
    lines, values = content.splitlines(), list[Any]()
    with contextlib.suppress(ValueError):
        values = json.loads((b"[%s]" % b",".join(lines)).decode())
    if len(values) == len(lines):
        return values
    values = []
    for line in lines:
        with contextlib.suppress(ValueError):
            values.append(json.loads(line))
    return values


def read_samples(file: Path | str) -> dict[int, dict[str, Any]]:
    """The samples recorded in a file, by index: what was recorded last counts."""
    return by_index(sample_lines(file))


def by_index(records: Iterable[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Records by the index of their sample; the last one of a sample counts. What was kept below
    0, for the next attempt alone, is none."""
    return {index: record for index, record in standing(records).items() if index >= 0}


def standing(records: Iterable[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """What was recorded last of each index, and not withdrawn since."""
    last = {record["index"]: record for record in records}
    return {index: record for index, record in last.items() if not record.get("withdrawn")}


def earlier_samples(folder: Path, holds: Callable[[int], bool] = lambda index: True) -> bytes:
    """What earlier attempts of a cell recorded, as JSON lines: the attempt that got furthest, and
    the last of those; what was kept for the next attempt alone does not count. Only samples of
    which `holds` says so by their index."""
    records = (one for one in earlier_records(folder) if holds(one["index"]))
    return "".join(json.dumps(one) + "\n" for one in records).encode()


def earlier_records(folder: Path) -> list[dict[str, Any]]:
    """The records of the attempt that `earlier_samples` takes them from."""
    return list(_furthest(folder)[1].values())


def earlier_indices(folder: Path) -> set[int]:
    """The indices of the samples that earlier attempts of a cell recorded."""
    return {index for index in _furthest(folder)[1] if index >= 0}


def last_of_each(lines: bytes) -> bytes:
    """JSON lines with only the last record of each sample, in the order of the samples."""
    records = standing(map(json.loads, lines.splitlines()))
    return "".join(json.dumps(records[index]) + "\n" for index in sorted(records)).encode()


def furthest_attempt(folder: Path) -> Path | None:
    """The attempt that `earlier_samples` takes them from; None where no attempt has any."""
    return _furthest(folder)[0]


def _furthest(folder: Path) -> tuple[Path | None, dict[int, dict[str, Any]]]:
    best: tuple[Path | None, dict[int, dict[str, Any]]] = None, {}
    most = 0
    if folder.is_dir():
        for attempt in sorted(folder.iterdir(), key=age):
            if _was_taken(attempt):
                continue
            samples = standing(sample_lines(attempt / names.SAMPLES))
            count = sum(index >= 0 for index in samples)
            if samples and count >= most:
                best, most = (attempt, samples), count
    return best


def _was_taken(attempt: Path) -> bool:
    """Whether it is a result of a cache, whose run was killed before it could be published. Its
    answers are those of another run, and its cell has no right to call them its own."""
    try:
        return b'"taken_from"' in read_plain(attempt / names.CELL)
    except OSError:
        return False


def age(attempt: Path) -> tuple[int, ...]:
    """By which the folders of attempts, ``<attempt>-<token>[.<n>]``, are in their order; others go
    before them."""
    parts = attempt.name.replace(".", "-").split("-")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()


def count_answered(lines: bytes) -> int:
    """How many of these JSON lines are samples with an answer; others are asked again."""
    records = (one for one in _values(lines) if isinstance(one, dict))
    return sum(one.get("index", -1) >= 0 and not lacks_answer(one) for one in records)


def count_samples(lines: bytes) -> int:
    """How many of these JSON lines are samples of the result."""
    return sum(not line.startswith(_NEXT_ATTEMPT_PREFIX) for line in lines.splitlines())
