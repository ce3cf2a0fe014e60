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
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryFile

from benchfleet.environment import child_environment
from benchfleet.errors import ResultsError
from benchfleet.results.disk import digest_of, read_plain
from benchfleet.results.layout import CELL, SAMPLES, check_path
from benchfleet.results.read import SampleScores, sample_scores

_PROGRAM = [sys.executable, "-m", "benchfleet.results.score_reader"]
_PROCESSES = 8
_LEAST_RESULTS = 2_000  # for fewer, starting the processes takes longer than it saves
_BATCH_RESULTS = 500

_Read = tuple[str, SampleScores]  # the digest of a result's cell.json, and its scores
_Batch = Mapping[str, _Read | None]  # by path; None for one that could not be read


class ScoreReader:
    """The sample scores of the results of one folder. Processes start to read many results ahead,
    in the order of `paths`. Any other is read when it is asked for, and so are all if a process
    dies."""

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self._root = str(root.absolute())
        many = len(paths) >= _LEAST_RESULTS
        self._batches = _read_ahead(self._root, paths) if many else iter(())
        self._read: dict[str, _Read | None] = dict(next(self._batches, {}))

    def __call__(self, path: str, digest: str) -> SampleScores:
        """The scores of the result at `path`; none if its cell.json has another digest. Raises
        ResultsError, or ValueError for a score that is no number."""
        while path not in self._read and (batch := next(self._batches, None)) is not None:
            self._read.update(batch)
        actual, scores = self._read.pop(path, None) or _read(self._root, path, digest)
        return scores if actual == digest else SampleScores()


def _read(root: str, path: str, digest: str | None = None) -> _Read:
    """A result's digest and scores; no scores where `digest` is given and is not the result's, or
    where the samples are not as they were sealed."""
    check_path(path)
    folder = f"{root}/{path}"  # as text: a Path for each takes longer
    try:
        content = read_plain(f"{folder}/{CELL}")
        actual = sha256(content).hexdigest()
        if digest not in (None, actual) or not _has_its_samples(folder, content):
            return actual, SampleScores()
    except OSError:
        return "", SampleScores()
    return actual, sample_scores(folder)


def _has_its_samples(folder: str, seal: bytes) -> bool:
    """Whether a cell.json names the digest of its folder's samples; to parse it takes longer than
    all else here."""
    try:
        return digest_of(f"{folder}/{SAMPLES}").encode() in seal
    except FileNotFoundError:
        return False


def _read_ahead(root: str, paths: Sequence[str]) -> Iterator[_Batch]:
    """The results in batches, in the order of `paths`; first an empty one, when all processes have
    started. Ends early if a process fails."""
    starts = range(0, len(paths), _BATCH_RESULTS)
    batches = [paths[start : start + _BATCH_RESULTS] for start in starts]
    with ExitStack() as stack, suppress(OSError, EOFError, pickle.UnpicklingError):
        processes = []
        for number in range(_PROCESSES):
            processes.append(stack.enter_context(_started(root, batches[number::_PROCESSES])))
            stack.callback(processes[-1].kill)
        yield {}
        for _, process in zip(batches, cycle(processes), strict=False):
            yield pickle.load(process.stdout)  # type: ignore[arg-type] # noqa: S301 - our own


def _started(root: str, batches: Sequence[Sequence[str]]) -> subprocess.Popen[bytes]:
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


def _interned(root: str, path: str) -> _Read | None:
    """A result with equal names as one object, which a pickle has once; None for an error, which
    the parent raises when it reads the result itself."""
    with suppress(ResultsError, OSError, ValueError, LookupError, TypeError):
        digest, read = _read(root, path)
        scores = {sys.intern(name): score for name, score in read.scores.items()}
        contexts = {sys.intern(name): sys.intern(of) for name, of in read.contexts.items()}
        return digest, SampleScores(scores=scores, contexts=contexts, local=read.local)
    return None


def main() -> None:
    """Read the batches that standard input names, and write the scores of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills this process
    gc.disable()  # nothing here is circular
    root, batches = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own parent
    for batch in batches:
        pickle.dump({path: _interned(root, path) for path in batch}, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
