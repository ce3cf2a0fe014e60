"""The disk of a simulated campaign: real files, which a process writes step by step, and a disk
that may take no more."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.domain.part import is_part_id
from benchfleet.domain.telemetry import Reading
from benchfleet.errors import ResultsError
from benchfleet.results.disk import digest_of
from benchfleet.results.layout import CELL
from benchfleet.results.publish import Moves, PublishAll
from benchfleet.results.staged_files import Sealed, StagedFiles
from benchfleet.results.write import AttemptFolder, SealAll, Sealing, Verdict, seal_all
from benchfleet.runner.disk_guard import UNLIMITED, DiskSpace

Step = Callable[[str], None]  # a moment at which a process may be slow, stopped or killed


def no_room() -> OSError:
    """What a full disk says."""
    return OSError(errno.ENOSPC, "No space left on device")


@dataclass(kw_only=True)
class SimulatedDisk:
    """What is published on it, as every process that publishes was seen to do it."""

    root: Path
    full: bool = False
    says_so: bool = True  # False: a quota refuses, and the disk seems to have room
    published: dict[str, str] = field(default_factory=dict)  # digests of cell.json by path
    wrong: list[str] = field(default_factory=list)

    def disk_space(self) -> DiskSpace:
        return DiskSpace(free=0, total=10**12) if self.full and self.says_so else UNLIMITED

    def refuse_when_full(self) -> None:
        if self.full:
            raise no_room()

    def folder(self, folder: Path, step: Step) -> SimulatedFolder:
        """An attempt's folder of one process."""
        return SimulatedFolder(folder, self, step)

    def sealer(self, step: Step) -> SealAll:
        """What seals for one process."""

        def seal_in_steps(some: Sequence[Sealing]) -> Sequence[Sealed | Exception]:
            step("seal")
            if self.full:
                return [no_room() for _ in some]
            found = seal_all(some)
            step("sealed")
            return found

        return seal_in_steps

    def publisher(self, publish_all: PublishAll, step: Step) -> PublishAll:
        """What publishes for one process."""

        def publish_in_steps(moves: Moves) -> Sequence[ResultsError | None]:
            found: list[ResultsError | None] = []
            for folder, public in moves:
                step("publish")
                if self.full:
                    found.append(ResultsError(f"{public.name} cannot be published: no room"))
                    continue
                found += publish_all([(folder, public)])
                self.look_at(public)
                step("published")
            return found

        return publish_in_steps

    def look_at(self, public: Path) -> None:
        """See whether what was published there is as it was."""
        path = public.relative_to(self.root).as_posix()
        try:
            found = digest_of(public / CELL)
        except FileNotFoundError:
            if not is_part_id(path):  # those go once they are joined
                self.wrong.append(f"{path} was published and is gone")
            return
        if self.published.setdefault(path, found) != found:
            self.wrong.append(f"{path} was published twice, with different content")


class SimulatedFolder(AttemptFolder):
    """An attempt's folder, written step by step."""

    def __init__(self, folder: Path, disk: SimulatedDisk, step: Step) -> None:
        self._disk, self._step = disk, step
        step("folder")
        disk.refuse_when_full()
        super().__init__(folder)

    def record(self, lines: bytes) -> None:
        self._step("record")
        if self._disk.full:  # it takes a part
            super().record(lines[: len(lines) // 2])
        self._disk.refuse_when_full()
        super().record(lines)

    def append(self, name: str, data: bytes) -> None:
        self._disk.refuse_when_full()
        super().append(name, data)

    def fail(self, failure: Failure, telemetry: Mapping[str, Any] | None = None) -> None:
        self._step("fail")
        self.close()
        self._disk.refuse_when_full()
        super().fail(failure, telemetry)


class NoFolder(AttemptFolder):
    """An attempt that leaves nothing on any disk, where the loop alone is looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.first = folder, folder, True
        self._samples = None

    def record(self, lines: bytes) -> None: ...

    def append(self, name: str, data: bytes) -> None: ...

    def close(self) -> None: ...

    def discard(self) -> None: ...

    def measure(self, reading: Reading) -> None: ...

    def fail(self, failure: Failure, telemetry: Mapping[str, Any] | None = None) -> None: ...

    def stage(self, cell: Cell, path: str, verdict: Verdict) -> StagedFiles:
        metrics: Mapping[str, Any] = {"overall_score": verdict.score["overall"]}
        sealed = Sealed(digest=str(cell.fingerprint), metrics=metrics)
        return StagedFiles(folder=self.folder, contents={}, samples="", changed=[], sealed=sealed)
