"""What a run writes down is what another process sees of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.campaign.base import Campaign
from benchfleet.domain.matrix import Matrix
from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.errors import LedgerError
from benchfleet.results.layout import Layout
from benchfleet.runner.progress import Eta, Notice, Progress, Running
from benchfleet.runner.run_end import RunEnd
from benchfleet.runs import live_state
from benchfleet.runs import registry as records
from benchfleet.runs.follow import FollowedProgress, follow, progress_of
from benchfleet.runs.live_state import DETACHED, LiveStateWriter, registered_run
from benchfleet.runs.process import Process
from benchfleet.study import Study
from benchfleet.testing.sample_cells import sample_cell


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "results")


@contextmanager
def run(layout: Layout, *, url: str = "") -> Iterator[LiveStateWriter]:
    """A run of this process."""
    campaign = Campaign(name="study", file=Path("/study.yaml"), results=layout.root, matrix=_NONE)
    with registered_run(
        Study(campaign=campaign, layout=layout, url=url), ends_on="SIGTERM"
    ) as feed:
        yield feed


_NONE: Matrix = None  # type: ignore[assignment]  # a record says nothing of it


def progress() -> Progress:
    now = time.monotonic()
    slot = Running(slot="s1", devices="cpu:0", cell="m/dense/b", stage="benchmark", total=9, done=4)
    slot.since = now - 5
    slot.reading = Reading(at=1.0, ram=7, gpus=(GpuReading(index=0, memory=31, total=80),))
    found = Progress(total=6, reused=1, slots={"s1": slot})
    found.recount(zip("abcdef", ["success"] * 2 + ["running"] + ["pending"] * 3, strict=True))
    found.eta = Eta(seconds=40.0, spread=7.0, at=now)
    found.awaited = {"lab": now - 60}
    return found


def followed(record: records.Record, **named: int) -> list[tuple[Notice, FollowedProgress]]:
    found: list[tuple[Notice, FollowedProgress]] = []
    for _ in follow(record, lambda notice, progress: found.append((notice, progress)), **named):  # type: ignore[arg-type]
        pass
    return found


END = RunEnd(progress=Progress(), seconds=7.0, ran=2, impossible=((sample_cell(), "too large"),))


def test_a_follower_sees_the_counts_the_slots_the_time_left_and_what_happened(
    layout: Layout,
) -> None:
    with run(layout) as feed:
        (record,) = records.runs_of(layout)
        assert record.is_running
        assert [found.file for found in records.active_runs()] == [record.file]
        now = progress()
        feed(Notice(kind="run_started"), now)
        feed(Notice(kind="cell_failed", cell="m/dense/c", message="oom", data={"retry_in": 4}), now)
        feed(Notice(kind="cell_progress", slot="s1"), now)
        feed.ended(END)
    found = followed(record)
    assert [notice.kind for notice, _ in found if notice.kind != "cell_progress"] == [
        "run_started",
        "cell_failed",
    ]
    assert (found[1][0].message, found[1][0].data) == ("oom", {"retry_in": 4})
    last = found[-1][1]
    assert (last.total, last.reused, last.ended, last.states) == (6, 1, 2, now.states)
    assert last.slots == now.slots
    assert last.eta == now.eta
    assert last.awaited == now.awaited


def test_what_happened_keeps_the_count_of_its_moment(layout: Layout) -> None:
    with run(layout) as feed:
        now = progress()
        feed(Notice(kind="cell_done", cell="a"), now)
        now.move("c", "success")
        feed(Notice(kind="cell_done", cell="b"), now)
        feed.ended(END)
    (record,) = records.runs_of(layout)
    ended = {
        notice.cell: progress_of.ended
        for notice, progress_of in followed(record)
        if notice.kind == "cell_done"
    }
    assert ended == {"a": 2, "b": 3}


def test_a_late_observer_gets_the_last_events_only(layout: Layout) -> None:
    with run(layout) as feed:
        for number in range(30):
            feed(Notice(kind="cell_done", cell=str(number)), progress())
    (record,) = records.runs_of(layout)
    cells = [notice.cell for notice, _ in followed(record) if notice.kind == "cell_done"]
    assert cells == [str(number) for number in range(20, 30)]
    assert not [1 for notice, _ in followed(record, earlier=0) if notice.kind == "cell_done"]


def test_how_it_ended_is_written_down_also_where_it_was_an_error(
    layout: Layout, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError), run(layout):
        raise RuntimeError("the ledger is gone")
    (record,) = records.runs_of(layout)
    assert record.end == {"error": "the ledger is gone"}
    assert not record.is_running
    assert list((tmp_path / "cache").glob("benchfleet/runs/*")) == []
    assert records.active_runs() == []


def test_a_folder_that_takes_nothing_keeps_a_run_from_nothing(layout: Layout) -> None:
    layout.root.parent.mkdir(parents=True, exist_ok=True)
    layout.root.write_text("a file")
    with run(layout) as feed:
        feed(Notice(kind="run_started"), progress())
        feed.ended(END)
    assert records.runs_of(layout) == []


def test_old_records_go_and_those_that_go_on_or_run_elsewhere_stay(layout: Layout) -> None:
    with run(layout):
        (going,) = records.runs_of(layout)
        far = replace(Process.own(), space="theirs", host="theirs")
        kept = replace(going, file=layout.runners / "20000101-000000.json", process=far)
        records.write(kept)
        for _ in range(13):
            with run(layout) as feed:
                feed(Notice(kind="run_started"), progress())
        files = {record.file for record in records.runs_of(layout)}
    assert {going.file, kept.file} < files
    assert len(files) == 13  # these two, ten that ended, and the latest
    assert not list(layout.runners.glob("*.draft"))


def test_the_record_of_a_run_that_failed_before_it_began_stays_until_the_next(
    layout: Layout,
) -> None:
    with run(layout) as feed:
        feed(Notice(kind="run_started"), progress())
        feed.ended(END)
    for _ in range(12):
        with pytest.raises(RuntimeError), run(layout):
            raise RuntimeError("the ledger is gone")
    found = records.runs_of(layout)
    assert [record.began for record in found] == [False, True]
    assert found[0].end == {"error": "the ledger is gone"}
    assert len([*layout.runners.glob("*.json*")]) == 3


def test_what_json_cannot_tell_is_left_out_and_ends_nothing(layout: Layout) -> None:
    with run(layout) as feed:
        feed(Notice(kind="warning", message="lost", data={"keys": {(1, 2): 3}}), progress())
        feed(Notice(kind="warning", message="kept", data={"path": Path("/x")}), progress())
        feed.ended(END)
    (record,) = records.runs_of(layout)
    assert [notice.message for notice, _ in followed(record) if notice.kind == "warning"] == [
        "kept"
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "end": 3}'])
def test_what_is_no_record_is_none(layout: Layout, text: str) -> None:
    layout.runners.mkdir(parents=True)
    (layout.runners / "x.json").write_text(text)
    assert records.runs_of(layout) == []


def test_a_detached_run_is_named_like_its_log_and_starts_no_other_under_that_name(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DETACHED, str(layout.runners / "mine.log"))
    with run(layout), run(layout):
        logs = [record.log for record in records.runs_of(layout)]
    assert sorted(logs) == ["", str(layout.runners / "mine.log")]
    assert (layout.runners / "mine.json").exists()


def test_only_a_signal_that_asks_is_believed_of_a_record(layout: Layout) -> None:
    with run(layout):
        (record,) = records.runs_of(layout)
        records.write(replace(record, ends_on="SIGKILL"))
        (found,) = records.runs_of(layout)
    assert found.ends_on == ""


def test_two_that_begin_at_once_with_two_ledgers_do_not_both_go_on(layout: Layout) -> None:
    together, tried = threading.Barrier(2), threading.Barrier(2)
    going: list[str] = []

    def begin(url: str) -> None:
        together.wait(60)
        with suppress(LedgerError), run(layout, url=url):
            going.append(url)
            tried.wait(60)
            return
        tried.wait(60)

    for number in range(20):
        going.clear()
        combine = [
            threading.Thread(target=begin, args=(f"{name}{number}.db",)) for name in ("a", "b")
        ]
        for one in combine:
            one.start()
        for one in combine:
            one.join(60)
        assert len(going) < 2


def test_the_time_that_is_left_is_kept_up_to_date_while_a_cell_reports_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_state, "REFRESH_S", 0.05)
    seen = progress()
    with run(layout) as feed:
        feed(Notice(kind="cell_started"), seen)
        seen.eta = Eta(seconds=3000.0, spread=7.0, at=time.monotonic())
        until = time.monotonic() + 60
        left: float | None = None
        while (left is None or left < 1000) and time.monotonic() < until:
            (record,) = records.runs_of(layout)
            left = progress_of(record).seconds_left(time.monotonic())
        assert left is not None
        assert left > 1000
