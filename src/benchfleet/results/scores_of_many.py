"""The samples' scores of very many results, read by all cores."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context

from benchfleet.results.read import SampleScores, has_seal, sample_scores

MANY = 5_000  # results, from which on it is worth to start processes
_CHUNK = 500  # results that a process reads at a time

Result = tuple[str, str]  # its folder, and the digest of its cell.json


def scores_of(result: Result) -> SampleScores:
    """The samples' scores of a published result; none where another thing lies at its place."""
    folder, digest = result
    return sample_scores(folder) if has_seal(folder, digest) else SampleScores()


def scores_of_many(results: Sequence[Result]) -> list[SampleScores]:
    """The same of each, in their order."""
    cores = len(os.sched_getaffinity(0))
    if cores == 1 or len(results) < MANY:
        return [scores_of(result) for result in results]
    rest = iter(results)
    chunks = iter(lambda: list(islice(rest, _CHUNK)), [])
    # A fork has all that is imported, and does not run the user's own script once more.
    pool = ProcessPoolExecutor(cores, get_context("fork"), _ignore_interrupts)
    try:
        return [scores for chunk in pool.map(_scores_of_each, chunks) for scores in chunk]
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first process's to answer


def _scores_of_each(results: Sequence[Result]) -> list[SampleScores]:
    return [scores_of(result) for result in results]
