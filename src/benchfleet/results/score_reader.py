"""Reads the sample scores of many results, by processes of their own.

Each result is two small files. One process waits for the disk between them, and threads would wait
for each other. Several processes keep a disk or a file server busy, and parse on all cores.
"""

from __future__ import annotations

import gc
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryFile

from benchfleet.environment import child_environment
from benchfleet.errors import ResultsError
from benchfleet.results.read import SampleScores, has_seal, sample_scores

_PROGRAM = [sys.executable, "-m", "benchfleet.results.score_reader"]
_PROCESSES = 8
_LEAST_RESULTS = 2_000  # for fewer, starting the processes takes longer than it saves
_BATCH_RESULTS = 500

Result = tuple[str, str]  # path in the results folder, digest of its cell.json
_Batch = Mapping[str, SampleScores | None]  # by path; None for one that could not be read


class ScoreReader:
    """The sample scores of the results of one folder. Processes read many results ahead, in the
    order of `results`. Any other is read when it is asked for, and so are all if a process dies."""

    def __init__(self, root: Path, results: Sequence[Result]) -> None:
        self._root = str(root.absolute())
        many = len(results) >= _LEAST_RESULTS
        self._batches = _read_ahead(self._root, results) if many else iter(())
        self._scores: dict[str, SampleScores | None] = {}

    def __call__(self, result: Result) -> SampleScores:
        """The scores of a result; none if another result is at its path. Raises ResultsError, or
        ValueError for a score that is no number."""
        path, _ = result
        while path not in self._scores and (batch := next(self._batches, None)) is not None:
            self._scores.update(batch)
        scores = self._scores.pop(path, None)
        return _scores_of(self._root, result) if scores is None else scores


def _scores_of(root: str, result: Result) -> SampleScores:
    path, digest = result
    folder = f"{root}/{path}"  # as text: a Path for each takes longer
    return sample_scores(folder) if has_seal(folder, digest) else SampleScores()


def _read_ahead(root: str, results: Sequence[Result]) -> Iterator[_Batch]:
    """The scores in batches, in the order of the results; ends early if a process fails."""
    starts = range(0, len(results), _BATCH_RESULTS)
    batches = [results[start : start + _BATCH_RESULTS] for start in starts]
    with ExitStack() as stack, suppress(OSError, EOFError, pickle.UnpicklingError):
        processes = []
        for number in range(_PROCESSES):
            processes.append(stack.enter_context(_started(root, batches[number::_PROCESSES])))
            stack.callback(processes[-1].kill)
        for _, process in zip(batches, cycle(processes), strict=False):
            yield pickle.load(process.stdout)  # type: ignore[arg-type] # noqa: S301 - our own


def _started(root: str, batches: Sequence[Sequence[Result]]) -> subprocess.Popen[bytes]:
    with TemporaryFile() as file:
        pickle.dump((root, batches), file)
        file.seek(0)
        return subprocess.Popen(
            _PROGRAM,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",  # the modules of a user's folder are not imported
            env=child_environment(),
        )


def _interned(root: str, result: Result) -> SampleScores | None:
    """The scores with equal names as one object, which a pickle has once; None for an error, which
    the parent raises when it reads the result itself."""
    with suppress(ResultsError, OSError, ValueError, LookupError, TypeError):
        read = _scores_of(root, result)
        scores = {sys.intern(name): score for name, score in read.scores.items()}
        contexts = {sys.intern(name): sys.intern(of) for name, of in read.contexts.items()}
        return SampleScores(scores=scores, contexts=contexts)
    return None


def main() -> None:
    """Read the batches that standard input names, and write the scores of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills this process
    gc.disable()  # nothing here is circular
    root, batches = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own parent
    for batch in batches:
        pickle.dump({result[0]: _interned(root, result) for result in batch}, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
