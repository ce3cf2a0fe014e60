"""The arguments that an executor is made with, checked; mistakes are noted, not raised."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from benchfleet.campaign.base import absolute
from benchfleet.errors import Mistake, UnknownName
from benchfleet.ledger.addresses import split_url

# Those that every result has: its folder appears whole.
_RESULT_FILES = (
    "metrics.json",
    "raw_results.csv",
    "samples.jsonl",
    "config.json",
    "cell.json",
    "log.txt",
)


def read_gpu_ids(value: Any, mistakes: list[Mistake]) -> tuple[int, ...]:
    """The GPU ids, without what is no such id."""
    example = "must be a list of GPU ids such as [0, 1], or [] for the CPU"
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        mistakes.append(Mistake(key="gpu_ids", message=f"{example}; not {value!r:.60}"))
        return ()
    ids: list[int] = []
    for index, one in enumerate(value):
        key, number = f"gpu_ids[{index}]", _whole(one)
        if number is None or number < 0:
            message = f"must be the number of a GPU, not {one!r:.60}"
            mistakes.append(Mistake(key=key, message=message))
        elif number in ids:
            mistakes.append(Mistake(key=key, message=f"GPU {number} stands twice; remove one"))
        else:
            ids.append(number)
    return tuple(ids)


def read_count(value: Any, mistakes: list[Mistake]) -> int:
    """How many cells run at once; 1 for a wrong value."""
    number = _whole(value)
    if number is None or number < 1:
        message = f"must be a whole number, 1 or more, not {value!r:.60}"
        mistakes.append(Mistake(key="max_concurrent_runs", message=message))
        return 1
    return number


def _whole(value: Any) -> int | None:
    """The whole number that it is, NumPy's too; truths are none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    return int(value)


def read_folder(value: Any, mistakes: list[Mistake]) -> Path:
    """The results folder; the current one for a wrong value."""
    named = isinstance(value, (str, os.PathLike)) and os.fspath(value)
    if named and isinstance(named, str) and "://" not in named:
        return absolute(Path.cwd(), named)
    message = f"must be a folder of this machine, not {value!r:.60}"
    mistakes.append(Mistake(key="base_result_dir", message=message))
    return Path.cwd()


def read_ledger(value: Any, mistakes: list[Mistake]) -> str:
    """The ledger's address; empty for a wrong one."""
    message = f"must be text such as 'sqlite:///local/ledger.db', not {value!r:.60}"
    if isinstance(value, str):
        try:
            split_url(value)
        except UnknownName as error:
            message = str(error)
        else:
            return value
    mistakes.append(Mistake(key="ledger", message=message))
    return ""


def read_timeout(value: Any, mistakes: list[Mistake]) -> float | None:
    """The seconds that a cell may take; None for no limit, or a wrong one."""
    if value is None:
        return None
    number = isinstance(value, Real) and not isinstance(value, bool)
    if number and 0 < float(value) < math.inf:
        return float(value)
    message = f"must be a number of seconds above 0, not {value!r:.60}"
    mistakes.append(Mistake(key="timeout_per_benchmark", message=message))
    return None


def check_resuming(enabled: Any, required_files: Any, mistakes: list[Mistake]) -> None:
    """Note arguments of the hub's executor that cannot be kept here."""
    if not enabled:
        message = "finished cells never run again; name another base_result_dir, or delete some"
        mistakes.append(Mistake(key="enable_resumability", message=message))
    files = () if required_files is None else required_files
    listed = isinstance(files, Iterable) and not isinstance(files, (str, bytes))
    known_files = ", ".join(_RESULT_FILES)
    for name in files if listed else [files]:
        if name not in _RESULT_FILES:
            message = f"a result has no {name!r:.60}; leave it out, or name some of {known_files}"
            mistakes.append(Mistake(key="required_result_files", message=message))


def check_callback(value: Any, mistakes: list[Mistake]) -> None:
    """Note a progress callback that cannot be called."""
    if value is not None and not callable(value):
        message = f"must be something to call with an ExecutionProgress, not {value!r:.60}"
        mistakes.append(Mistake(key="progress", message=message))
