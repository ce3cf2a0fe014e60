"""Timing commands beside each other: interleaved, medians, ratios; shared by the scripts here."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Modules are compiled once and kept, as those of an installed package are.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

BENCHFLEET = [sys.executable, "-m", "benchfleet.cli.main"]
Timed = Callable[[], Mapping[str, float]]  # one repetition: figures by name, seconds


def arguments(
    purpose: str,
    *,
    repeats: int = 5,
    numbers: Mapping[str, int | None] | None = None,
    words: Mapping[str, str] | None = None,
) -> argparse.Namespace:
    """What every script takes; `numbers` and `words` are further options of this one with their
    defaults."""
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--work", metavar="DIR", help="where to work; a disk, to count its fsync")
    for name, default in (numbers or {}).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, word in (words or {}).items():
        parser.add_argument(f"--{name}", default=word)
    return parser.parse_args()


def interleaved(systems: Mapping[str, Timed], repeats: int) -> dict[str, dict[str, float]]:
    """The median of each figure of each system, whose repetitions take turns."""
    series: dict[str, dict[str, list[float]]] = {name: {} for name in systems}
    for _ in range(repeats):
        for name, run in systems.items():
            measured = run()
            print(
                name, {k: round(v, 4) for k, v in measured.items()}, file=sys.stderr
            )  # if it is cut
            for figure, value in measured.items():
                series[name].setdefault(figure, []).append(value)
    return {
        name: {figure: statistics.median(values) for figure, values in figures.items()}
        for name, figures in series.items()
    }


def whole_seconds(command: Sequence[str], **named: Any) -> dict[str, float]:
    """The wall time of a command that must succeed, as the one figure of a system."""
    return {"whole": seconds(command, **named)}


def seconds(command: Sequence[str], **named: Any) -> float:
    """The wall time of a command that must succeed."""
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, **named)
    took = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr[-2000:]}")
    return took


def bare_step(steps: int = 1_000_000) -> float:
    """Seconds of CPU for one step of a bare loop: what this machine is worth at the moment."""
    table = dict[int, int]()
    began = time.process_time()
    for step in range(steps):
        table[step & 1023] = step
    return (time.process_time() - began) / steps


@contextmanager
def folder(arguments: argparse.Namespace) -> Iterator[Path]:
    """An empty folder that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="benchfleet-perf-", dir=arguments.work))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def missing(command: str) -> bool:
    """Whether a peer is not here; its row is then left out by name."""
    if shutil.which(command) is None:
        print(f"left out: {command} is not installed")
        return True
    return False


def added(figures: Mapping[str, Mapping[str, float]], file: str | None) -> dict[str, Any]:
    """These figures with those that the file has of other parts; the file has all of them then."""
    if file is None:
        return dict(figures)
    earlier = json.loads(Path(file).read_text()) if Path(file).exists() else {}
    merged: dict[str, Any] = {**earlier, **figures}
    Path(file).write_text(json.dumps(merged, indent=2) + "\n")
    return merged


def aim(what: str, value: float, bound: float, *, least: bool = False) -> None:
    """Print how a figure stands to its aim; `least`: it is to be at least that."""
    missed = value < bound if least else value > bound
    sign = ">=" if least else "<="
    print(f"aim | {what} | {value:.2f} | {sign} {bound:g} | {'missed' if missed else 'met'}")


def show(
    figures: Mapping[str, Mapping[str, float]],
    columns: Mapping[str, tuple[str, float]],
    *,
    against: str,
    by: str,
    arguments: argparse.Namespace,
) -> None:
    """Print a Markdown table; `columns` maps a figure to its heading and factor, and the last
    column is the ratio of figure `by` to that of the system `against`."""
    print(f"| | {' | '.join(head for head, _ in columns.values())} | ratio to {against} |")
    print("|---" * (len(columns) + 2) + "|")
    bound = figures[against][by]
    for name, row in figures.items():
        cells = [f"{row[figure] * factor:.2f}" for figure, (_, factor) in columns.items()]
        print(f"| {name} | {' | '.join(cells)} | {row[by] / bound:.2f} |")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")
