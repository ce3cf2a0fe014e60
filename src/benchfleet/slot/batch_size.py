"""The batch size of a cell: ``auto`` is chosen by trying, and answers of batches are checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Cell
from benchfleet.environment import own_cache
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter, Prompt

MAX_BATCH = 64
_MIN_GAIN = 1.1  # times as quick for each prompt, or the smaller batch is kept
_LENGTH_CHARACTERS = 8_192  # of a trial where the benchmark does not know its longest prompt
_REDUCTION = 4  # after memory ran out
_WORDS = "one two three four five six seven eight nine ten "
_CHECK = {"max_new_tokens": 8, "temperature": 0, "seed": 0}
_CHECKED_PROMPTS = 8


class BatchSizes:
    """Batch sizes of one slot. Chosen sizes are kept on this host, by model, config, devices and
    length."""

    def __init__(
        self, environ: Mapping[str, str], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._folder = own_cache(environ) / "batch_sizes"
        self._clock = clock
        self._chosen: tuple[Path, int] | None = None
        self._differences: dict[tuple[str, str], str] = {}

    def choose(self, cell: Cell, adapter: Adapter, longest: int | None) -> int:
        """The size for a cell that says auto; `longest` is the longest prompt in characters."""
        file = self._file(cell, adapter, longest)
        size = _read(file) or self._try(cell, adapter, longest or _LENGTH_CHARACTERS)
        _write(file, size)
        self._chosen = (file, size)
        return min(size, cell.workload.limit or size)

    def reduce(self) -> None:
        """Memory ran out: the next cell of this kind takes a smaller size."""
        if self._chosen is not None:
            file, size = self._chosen
            _write(file, max(1, size // _REDUCTION))

    def difference(self, cell: Cell, adapter: Adapter, size: int) -> str:
        """What to know of greedy answers in batches: that they differ from single ones here;
        ``""`` if they are equal, or need no check. Checked once for each model and config."""
        sampled = bool(cell.workload.generation.get("temperature"))
        if size < 2 or sampled or not adapter.batch_sensitive:
            return ""
        key = (cell.model.load_key, cell.config.canonical)
        if key not in self._differences:
            self._differences[key] = _difference(adapter)
        return self._differences[key]

    def _try(self, cell: Cell, adapter: Adapter, length: int) -> int:
        text = (_WORDS * (length // len(_WORDS) + 1))[:length]
        settings = {"max_new_tokens": 2, "seed": 0}
        most = min(MAX_BATCH, cell.workload.limit or MAX_BATCH)
        best, best_seconds = 1, 0.0
        size = 1
        adapter.answer([Prompt(context=text)], settings)  # warms up
        while size <= most:
            begun = self._clock()
            try:
                adapter.answer([Prompt(context=text)] * size, settings)
            except CellFailure as error:
                if error.kind != "oom" or size == 1:
                    raise
                break
            seconds = (self._clock() - begun) / size
            if best_seconds and seconds * _MIN_GAIN > best_seconds:
                break
            best, best_seconds = size, seconds
            size *= 2
        return best

    def _file(self, cell: Cell, adapter: Adapter, longest: int | None) -> Path:
        length = longest or _LENGTH_CHARACTERS
        bucket = 1 << max(length - 1, 0).bit_length()
        devices: Any = adapter.provenance().get("devices", [])
        key = [cell.model.load_key, cell.config.identity(), devices, bucket, cell.workload.limit]
        return self._folder / content_digest(key)[:32]


def _difference(adapter: Adapter) -> str:
    prompts = [Prompt(context=_WORDS * (n + 1), question=f"{n}?") for n in range(_CHECKED_PROMPTS)]
    together = adapter.answer(prompts, _CHECK)
    alone = [adapter.answer([prompt], _CHECK)[0] for prompt in prompts]
    differing = sum(a.text != b.text for a, b in zip(together, alone, strict=True))
    if not differing:
        return ""
    return (
        f"{differing} of {_CHECKED_PROMPTS} greedy answers in a batch differ from single ones on "
        "this hardware; set batch_size: 1 to compare exactly"
    )


def _read(file: Path) -> int:
    with suppress(OSError, ValueError):
        size = int(file.read_text("ascii"))
        return size if 1 <= size <= MAX_BATCH else 0
    return 0


def _write(file: Path, size: int) -> None:
    # A cache that cannot be written costs another trial and nothing else.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{size}")
        draft.write_text(str(size), "ascii")
        draft.replace(file)
