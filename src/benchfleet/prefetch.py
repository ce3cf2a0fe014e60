"""What cells read from the network: what is missing here, how large it is, and fetching it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import duration, sized
from benchfleet.download import Download, from_dict
from benchfleet.environment import offline, without_token
from benchfleet.errors import BenchfleetError, PluginError
from benchfleet.models.base import adapter_class
from benchfleet.reachability import unreachable_hub

_MAX_THREADS = 16  # which ask for sizes
_REPORT_EVERY_S = 5.0
FAILED = ": failed: "  # in a line that names what could not be had
_QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A download that this host does not have."""

    kind: str
    name: str
    size: int | None  # bytes; None if unknown

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.size_text})"

    @property
    def size_text(self) -> str:
        """Its size as people write it."""
        return sized(self.size) if self.size else "size unknown"


def downloads_of(cells: Iterable[Cell]) -> list[Download]:
    """All that these cells read from the network, each once: models first."""
    downloads: dict[str, Download] = {}
    parts = list(cells)
    for model in {cell.model.load_key: cell.model for cell in parts}.values():
        for one in adapter_class(model.adapter).downloads(model):
            downloads[str(one)] = one
    for work in {cell.workload.canonical: cell.workload for cell in parts}.values():
        try:
            benchmark = benchmark_class(work.benchmark)({**work.params, **work.outside})
            downloads |= {str(one): one for one in benchmark.downloads(work.subset)}
        except (PluginError, ValueError):
            continue  # a cell of another host, whose plugin or files are not here
    return list(downloads.values())


def missing_here(downloads: Sequence[Download], environ: Mapping[str, str]) -> list[Missing]:
    """Those that are not on this host, with their sizes if the hub tells them in time."""
    absent = list({one.title: one for one in downloads if not one.is_here(environ)}.values())
    if not absent:
        return []
    asks = _may_ask(environ)
    with ThreadPoolExecutor(min(_MAX_THREADS, len(absent))) as threads:
        ask = (lambda one: one.size(environ)) if asks else (lambda one: None)
        sizes = list(threads.map(ask, absent))
    return [
        Missing(kind=one.kind, name=one.title, size=size)
        for one, size in zip(absent, sizes, strict=True)
    ]


def _may_ask(environ: Mapping[str, str]) -> bool:
    """Whether the hub may and can be asked."""
    return not offline(environ) and not unreachable_hub(environ)


def fetch_all(downloads: Sequence[Download], environ: Mapping[str, str], tell: Tell) -> list[str]:
    """Fetch one after the other. `tell` gets progress; returns what could not be had, and why."""
    problems = []
    for number, one in enumerate(downloads, 1):
        label = f"[{number}/{len(downloads)}] {one.kind} {one}"
        begun = time.monotonic()
        was_here = one.kind != "data set" and one.is_here(environ)
        try:
            with _progress(one, environ, label, tell):
                one.fetch(environ)
        except (BenchfleetError, ValueError, OSError, ImportError) as error:
            reason = " ".join(without_token(str(error)).split()) or type(error).__name__
            problems.append(f"{one}: {reason}")
            tell(f"{label}{FAILED}{reason}")
            continue
        took = "" if was_here else f" ({duration(time.monotonic() - begun)})"
        tell(f"{label}: here{took}")
    return problems


@contextmanager
def _progress(one: Download, environ: Mapping[str, str], label: str, tell: Tell) -> Iterator[None]:
    """Tell every few seconds how much has come. It asks for the size once that takes a while."""
    ended = threading.Event()

    def report() -> None:
        if ended.wait(_REPORT_EVERY_S):
            return
        total = one.size(environ) if _may_ask(environ) else None
        while not ended.wait(_REPORT_EVERY_S):
            if received := one.received(environ):
                of = f" of {sized(total)}" if total else ""
                tell(f"{label}: {sized(received)}{of}")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()  # OpenSSL crashes a process that ends while a thread is in it


def main() -> None:
    """Fetch what standard input lists as JSON; for other hosts, over SSH."""
    os.environ.update(_QUIET)
    values: list[dict[str, Any]] = json.load(sys.stdin)

    def tell(text: str) -> None:
        try:
            print(text, flush=True)
        except OSError:  # the host that asked is gone
            os._exit(1)

    sys.exit(1 if fetch_all([from_dict(one) for one in values], os.environ, tell) else 0)
