"""An attempt's folder: filled while the cell runs, and sealed.

Publication has three steps, and the ledger's is the middle one: `seal_all` writes and syncs
everything with a manifest of digests, the ledger commits the manifest's digest, and
`benchfleet.results.publish` renames the folder to its public path. A crash after the second step
is repaired by repeating the third; a crash before it leaves an unpublished folder.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.domain.sample_end import sample_ends
from benchfleet.domain.telemetry import Reading
from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.disk import (
    digest_of,
    encoded,
    make_folders,
    plain_content,
    write_all,
)
from benchfleet.results.formats import config, pretty, raw_results
from benchfleet.results.samples import by_index, sample_lines
from benchfleet.results.staged_files import BESIDE, Sealed, StagedFiles, sync_all
from benchfleet.results.summary import numbers_and_truths, summarise
from benchfleet.results.telemetry_series import Series

_RESERVED_NAMES = frozenset(
    {names.CELL, names.SAMPLES, names.LOG, names.FAILURE, names.TELEMETRY, BESIDE}
)
_EMPTY_DIGEST = sha256().hexdigest()
_UNSAFE_CHARACTERS = re.compile(r'[\\:*?"<>|\x00-\x1f\x7f]')  # some file systems forbid them


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an attempt that ended well has to say, besides its samples."""

    score: Mapping[str, Any]  # overall, per_sample, tasks, summary
    seconds: Mapping[str, float]
    provenance: Mapping[str, Any]
    telemetry: Mapping[str, Any] = field(default_factory=dict)  # the summary of its readings
    usage: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sealing:
    """An attempt that is to be sealed."""

    folder: AttemptFolder
    cell: Cell
    path: str
    verdict: Verdict


class AttemptFolder:
    """One attempt's files while it runs. Written by the runner alone."""

    def __init__(self, folder: Path) -> None:
        """If the folder exists, another one beside it is created."""
        folder, self._changed = _create_folder(folder)  # with what is to be synced for it
        self.first = len(self._changed) > 1  # no other attempt left anything beside it
        self.folder = folder
        self.log = folder / names.LOG
        self._samples: FileIO | None = None  # opened for the first of them
        self._recorded = 0  # samples
        self._series = Series(folder / names.TELEMETRY)
        self._named: dict[str, str] = {}  # what a file is called here, and what the slot calls it

    def record(self, lines: bytes) -> None:
        """Append samples, as JSON lines; with the kernel when this returns."""
        if self._samples is None:
            self._samples = open(self.folder / names.SAMPLES, "ab", buffering=0)  # noqa: SIM115
        self._recorded += lines.count(b"\n")
        write_all(self._samples.fileno(), lines)

    def measure(self, reading: Reading) -> None:
        """Keep a reading; one that a full disk does not take is not kept."""
        with contextlib.suppress(OSError):
            self._series.add(reading)

    def append(self, name: str, data: bytes) -> None:
        """Append a piece of a file that the slot sent; what no file system takes in its name
        becomes ``_``. Refuses names that leave the folder, and those that are the runner's."""
        *above, last = self._name_of(name).split("/")
        target = self.folder  # which is not made again where another's result took its place
        for part in above:
            target /= part
            target.mkdir(exist_ok=True)
        with open(target / last, "ab") as opened:
            opened.write(data)

    def _name_of(self, name: str) -> str:
        safe = _UNSAFE_CHARACTERS.sub("_", name)
        ours = safe.partition("/")[0].casefold() in _RESERVED_NAMES
        if ours or any(part in ("", ".", "..") for part in name.split("/")):
            raise ResultsError(f"a slot may not write a result file named {name!r}")
        free, number = safe, 1
        while self._named.setdefault(free, name) != name:  # another file's name became the same
            free, number = f"{safe}~{number}", number + 1
        return free

    def fail(self, failure: Failure, telemetry: Mapping[str, Any] | None = None) -> None:
        """Leave the reason beside what the attempt wrote, with what was measured until then."""
        self.close()
        content = {**failure.to_dict(), **({"telemetry": telemetry} if telemetry else {})}
        (self.folder / names.FAILURE).write_bytes(encoded(pretty(content)))

    def close(self) -> None:
        """End it as it stands; its samples serve the next attempt."""
        if self._samples is not None:
            self._samples.close()

    def discard(self) -> None:
        """Remove it, but for one that failed, which is evidence; the cell has its result."""
        if not (self.folder / names.FAILURE).exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # others are there
                self.folder.parent.rmdir()

    def seal(self, cell: Cell, path: str, verdict: Verdict) -> Sealed:
        """Write what remains, and sync all of it; the recorded samples are lost at no moment.

        Raises ValueError, KeyError or TypeError where the score is not what a score must be, or
        where samples that were recorded or scored cannot be read any more.
        """
        (sealed,) = seal_all([Sealing(folder=self, cell=cell, path=path, verdict=verdict)])
        if isinstance(sealed, Exception):
            raise sealed
        return sealed

    def stage(self, cell: Cell, path: str, verdict: Verdict) -> StagedFiles:
        """The files that seal it; what is there already is synced. Raises as `seal` does."""
        samples = names.SAMPLES
        if self._samples is not None:
            self._samples.close()
            samples = BESIDE  # until all of it is there
        files, folders = self._content()
        records = self._read_back(len(verdict.score["per_sample"]))
        if parsed := verdict.score.get("parsed"):
            records = [{**r, "parsed": p} for r, p in zip(records, parsed, strict=True)]
        imported = verdict.provenance.get("origin") == "imported"
        ends = sample_ends(records, verdict.score.get("unparsed", ()), imported=imported)
        metrics = summarise(verdict.score, records, ends)
        reported = numbers_and_truths(verdict.score["summary"])
        measures = verdict.score.get("measures")
        if scores := verdict.score["per_sample"]:
            pairs = zip(records, scores, strict=True)
            records = [r if s is None else {**r, "score": s} for r, s in pairs]
        if ends:
            records = [{**r, "ended": end} for r, end in zip(records, ends, strict=True)]
        texts = {
            names.RAW_RESULTS: raw_results(records),
            names.METRICS: pretty(
                {
                    "overall_score": verdict.score["overall"],
                    "task_scores": verdict.score["tasks"],
                    "summary": {**verdict.score["summary"], **metrics},
                }
            ),
            names.CONFIG: pretty(config(cell)),
        }
        digests = {}
        for name, empty in files.items():
            if name not in (names.SAMPLES, names.CELL):
                texts.pop(name, None)  # the benchmark wrote its own
                file = f"{self.folder}/{name}"
                digests[name] = _EMPTY_DIGEST if empty else digest_of(file, synced=True)
        texts[names.SAMPLES] = "".join(json.dumps(record) + "\n" for record in records)
        contents = {name: encoded(text) for name, text in texts.items()}
        digests |= {name: sha256(content).hexdigest() for name, content in contents.items()}
        sealed = pretty(
            {
                "format": names.FORMAT,
                "id": cell.id,
                "fingerprint": cell.fingerprint,
                "path": path,
                "cell": cell.to_dict(),
                "metrics": metrics,
                **({"reported": reported} if reported else {}),
                **({"measures": measures} if measures else {}),
                "seconds": verdict.seconds,
                "provenance": verdict.provenance,
                "telemetry": verdict.telemetry,
                "usage": verdict.usage,
                "files": digests,
            }
        )
        contents[samples] = contents.pop(names.SAMPLES)
        contents[names.CELL] = encoded(sealed)
        digest = sha256(contents[names.CELL]).hexdigest()
        return StagedFiles(
            folder=self.folder,
            contents=contents,
            samples=samples,
            changed=[*reversed(folders), *reversed(self._changed)],
            sealed=Sealed(digest=digest, metrics=metrics, reported=reported),
        )

    def _content(self) -> tuple[dict[str, bool], list[Path]]:
        """The content, as of `plain_content`. The log names what is not a plain file; an empty log
        is created if there is none."""
        files, folders, dropped = plain_content(self.folder)
        if dropped or names.LOG not in files:
            lines = (
                f"benchfleet: {name!r} is not a plain file and was left out\n" for name in dropped
            )
            with open(self.log, "ab") as log:
                log.write("".join(lines).encode())
            files[names.LOG] = False
        return files, folders

    def _read_back(self, scored: int) -> list[dict[str, Any]]:
        """The samples in their order. Raises LostSamples where lines are not there any more, and
        ValueError where other samples were scored."""
        recorded = self._samples is not None
        lines = sample_lines(self.folder / names.SAMPLES) if recorded else []
        if len(lines) != self._recorded:
            raise LostSamples(
                f"{self._recorded} samples were recorded, and {len(lines)} of them can be read; "
                "`benchfleet retry` has the next run ask the others again"
            )
        records = [record for _, record in sorted(by_index(lines).items())]
        if scored and scored != len(records):
            raise ValueError(f"{scored} samples were scored, and {len(records)} were recorded")
        return records


class LostSamples(ValueError):
    """Recorded samples cannot be read any more."""


SealAll = Callable[[Sequence[Sealing]], Sequence[Sealed | Exception]]  # see `seal_all`


def seal_all(some: Sequence[Sealing]) -> Sequence[Sealed | Exception]:
    """Seal these attempts as one group; for each what `AttemptFolder.seal` returns or raises."""
    staged: list[StagedFiles | Exception] = []
    for one in some:
        try:
            staged.append(one.folder.stage(one.cell, one.path, one.verdict))
        except Exception as error:  # noqa: BLE001 - the caller judges it
            staged.append(error)
    sealed = iter(sync_all([one for one in staged if isinstance(one, StagedFiles)]))
    return [one if isinstance(one, Exception) else next(sealed) for one in staged]


def _create_folder(folder: Path) -> tuple[Path, list[Path]]:
    """The folder, or one beside it where another attempt of that name has it: of a ledger that is
    lost, since the tokens of a rebuilt one start again, or of a runner whose claim its server lost.
    That one may be at work there yet. Also the folders with a new name in them."""
    target, number, changed = folder, 0, make_folders(folder.parent)
    while True:
        try:
            target.mkdir()
        except FileExistsError:
            number += 1
            target = folder.with_name(f"{folder.name}.{number}")
        except FileNotFoundError:  # another run found the one above empty
            changed += make_folders(folder.parent)
        else:
            return target, [*changed, target.parent]
