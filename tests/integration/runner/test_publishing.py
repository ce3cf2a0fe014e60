"""What a run publishes, what it leaves alone at public paths, what it removes, in virtual time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.limits import Limits
from benchfleet.engines.base import (
    AttemptRequest,
    Recorded,
    SlotEvent,
    SlotId,
)
from benchfleet.errors import ClaimLost
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.reports.failures import grouped_failures
from stage import Stage, cells, good, sample


def left_behind(stage: Stage, name: str, *files: str) -> Path:
    """An attempt of the only cell that nobody goes on with."""
    (record,) = stage.ledger.cells()
    folder = stage.layout.attempts_of(record.fingerprint) / name
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).touch()
    return folder


def test_what_a_killed_runner_left_of_a_published_cell_is_removed_by_the_next_run(
    stage: Stage,
) -> None:
    stage.run(cells(1))
    too_late = left_behind(stage, "1-7", "log.txt")
    failed = left_behind(stage, "2-8", "failure.json")
    scored = left_behind(stage, "rescored-1", "log.txt")
    stage.run(cells(1))
    assert not too_late.exists()
    assert failed.is_dir()
    assert scored.is_dir()


def test_folders_that_a_killed_runner_left_empty_are_removed_by_the_next_run(stage: Stage) -> None:
    stage.run(cells(1))
    empty = left_behind(stage, "")
    kept = left_behind(stage, "../other/1-1", "log.txt").resolve()
    stage.run(cells(1))
    assert not empty.exists()
    assert kept.is_dir()


def test_attempts_of_a_cell_whose_result_is_not_at_its_place_are_kept(stage: Stage) -> None:
    stage.run(cells(1))
    (path,) = stage.states()
    shutil.rmtree(stage.layout.published(path))
    kept = left_behind(stage, "1-7", "log.txt")
    stage.run(cells(1))
    assert kept.is_dir()


def test_a_result_committed_but_not_renamed_is_published_by_the_next_run(stage: Stage) -> None:
    stage.run(cells(1))
    (record,) = stage.ledger.cells()
    public = stage.layout.published(record.path)
    back = stage.layout.attempts_of(record.fingerprint) / "1-1"
    back.parent.mkdir(parents=True)
    public.rename(back)
    stage.run(cells(1))
    assert (public / "cell.json").exists()
    assert stage.notices_of("published_late")[0].cell == record.path


def test_lost_lines_of_samples_advise_to_retry_and_not_to_score_again(stage: Stage) -> None:
    def torn(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        after, event = good(slot, request)[-1]
        lines = b'{"index": 1, "id"\n'
        recorded = Recorded(slot=slot, attempt=request.attempt, lines=lines, done=2, total=2)
        return [(1, sample(request, slot, 0)), (2, recorded), (after, event)]

    stage.engine.script = torn
    stage.run([replace(cells(1)[0], limits=Limits(tries=1))])
    records = list(stage.ledger.cells())
    (group,) = grouped_failures(records)
    assert "2 samples were recorded, and 1 of them can be read; `benchfleet retry`" in group.message
    assert (group.stage, group.kind, group.scoring) == ("benchmark", "error", False)


def test_what_lies_at_a_public_path_is_never_overwritten(stage: Stage) -> None:
    plain = stage.folder / "tiny" / "dense" / "benchmark-0"
    plain.mkdir(parents=True)
    (plain / "mine.txt").write_text("precious")
    stage.run(cells(1))
    assert (plain / "mine.txt").read_text() == "precious"
    assert "cannot be published" in stage.notices_of("warning")[0].message
    (plain / "mine.txt").unlink()
    plain.rmdir()
    stage.run(cells(1))
    assert (plain / "cell.json").exists()


class EndsTogether(MemoryLedger):
    """A ledger that receives several outcomes at once; with `refuses` it rejects the first."""

    def __init__(self, stage: Stage, *, refuses: bool = False) -> None:
        super().__init__(clock=stage.clock, lease=60)
        self.batch_sizes: list[int] = []
        self._refuses = refuses

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        self.batch_sizes.append(len(ended))
        if refuses := self._refuses:
            self._refuses = False
        rest = super().finish_all(ended[refuses:])
        return [ClaimLost("another has it"), *rest] if refuses else rest


def write_by_twos(stage: Stage, times: int) -> None:
    """So many times what two slots ended comes while what ended before is written."""
    waiting: list[Callable[[], None]] = []
    gave: list[object] = []

    def background(work: Callable[[], None]) -> None:
        gave.append(work)
        waiting.append(work)
        if len(waiting) == 2 or len(gave) > 2 * times:
            while waiting:
                waiting.pop()()

    stage.background = background


def at_once(slot: SlotId, request: AttemptRequest) -> list[tuple[float, SlotEvent]]:
    return [(1, event) for _, event in good(slot, request)]


def test_short_cells_that_end_together_are_finished_in_one_call(stage: Stage) -> None:
    stage.ledger = EndsTogether(stage)
    stage.engine.script = at_once
    write_by_twos(stage, 3)
    end = stage.run(cells(6))
    assert stage.ledger.batch_sizes == [2, 2, 2]
    assert (end.ran, end.progress.states) == (6, {"success": 6})
    assert all(stage.layout.published(path).is_dir() for path in stage.states())


def test_of_those_that_end_together_only_what_was_refused_is_not_published(stage: Stage) -> None:
    stage.ledger = EndsTogether(stage, refuses=True)
    stage.engine.script = at_once
    write_by_twos(stage, 1)
    end = stage.run(cells(2))
    first, again = (notice.cell for notice in stage.notices_of("cell_done"))
    assert [notice.cell for notice in stage.notices_of("claim_lost")] == [again]
    assert first != again
    assert stage.ledger.batch_sizes == [2, 1]
    assert end.progress.states == {"success": 2}
