"""The SQLite ledger with real files, real processes and real damage."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import LedgerDamaged, LedgerError, LedgerTooNew, LedgerUnreachable
from benchfleet.ledger.history import counts
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import FakeClock, sample_cell

OrdinaryUser = Callable[[Callable[[], object]], str]

ME = RunnerId("me")
SUCCESS = Outcome(state="success", digest="abc")
CELLS = [sample_cell(number, model=f"model-{number % 7}") for number in range(500)]

WORKER = """
import sys, uuid
from pathlib import Path
from benchfleet.domain.attempt import Outcome
from benchfleet.domain.resource import Offer
from benchfleet.errors import ClaimLost
from benchfleet.ledger.sqlite.ledger import SqliteLedger

ledger = SqliteLedger(Path(sys.argv[1]), campaign="study")
runner = str(uuid.uuid4())
while claims := ledger.claim(runner, Offer(), int(sys.argv[2])):
    for claim in claims:
        try:
            ledger.finish(claim.lease, Outcome(state="success", digest=runner))
        except ClaimLost:
            print("lost", flush=True)
        else:
            print(claim.lease.fingerprint, flush=True)
print("nothing left", flush=True)
"""


def open_ledger(
    path: Path, clock: Callable[[], float] = time.time, sync: Callable[[int], None] = os.fsync
) -> SqliteLedger:
    return SqliteLedger(path, campaign="study", clock=clock, sync=sync)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python programs, and ends what is left of them."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *map(str, arguments)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def kill_after(process: subprocess.Popen[str], lines: int) -> list[str]:
    """Read that many lines, kill -9 in the middle of whatever comes then, and read the rest."""
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    # A line that the kill cut in two is not a promise.
    rest = process.stdout.read()
    said += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    process.wait()
    return [line.strip() for line in said]


def sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("pragma integrity_check").fetchone() == ("ok",))


def test_processes_that_are_killed_lose_no_cell_and_run_none_twice(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_ledger(path)) as ledger:
        assert ledger.enroll(CELLS) == len(CELLS)
    victims = [start(WORKER, path, 3) for _ in range(3)]
    survivor = start(WORKER, path, 1)
    told = [kill_after(victim, lines) for victim, lines in zip(victims, (5, 20, 40), strict=True)]
    # Another host, whose clock is an hour ahead, reaps even what the survivor holds.
    with closing(open_ledger(path, clock=lambda: time.time() + 3600)) as ahead:
        ahead.reap()
        told.append(survivor.communicate(timeout=120)[0].split("\n"))
        ahead.reap()
    told.append(start(WORKER, path, 3).communicate(timeout=120)[0].split("\n"))
    with closing(open_ledger(path)) as ledger:
        shown = counts(ledger.cells())
        assert (shown.success, shown.total) == (len(CELLS), len(CELLS))
        finished = Counter(e.fingerprint for e in ledger.events() if e.kind == "finished")
        assert finished == {cell.fingerprint: 1 for cell in CELLS}
    promised = Counter(line for lines in told for line in lines if len(line) == 64)
    assert set(promised) <= set(finished)
    assert set(promised.values()) == {1}
    assert sound(path)


def test_a_kill_in_the_middle_of_commits_neither_damages_nor_forgets(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_ledger(path)) as ledger:
        ledger.enroll(CELLS)
    promised: set[str] = set()
    for round in range(8):
        said = kill_after(start(WORKER, path, 1 + round % 3), 3 + 5 * round)
        promised.update(said)
        with closing(open_ledger(path)) as ledger:
            done = {record.fingerprint for record in ledger.cells(states=["success"])}
            assert promised <= done
            assert len(done) - len(promised) <= round + 1  # committed, but killed before it said so
            running = list(ledger.cells(states=["running"]))
            assert len(running) <= 3 * (round + 1)
        assert sound(path)


def test_processes_that_open_and_enroll_at_once_make_one_ledger(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    program = """
import sys
from pathlib import Path
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing.samples import sample_cell
print("ready", flush=True)
sys.stdin.readline()
ledger = SqliteLedger(Path(sys.argv[1]), campaign="study")
print(ledger.enroll([sample_cell(number) for number in range(50)]))
"""
    path = tmp_path / "deep" / "down" / "ledger.db"
    command = [sys.executable, "-c", program, str(path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    new = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sorted(new) == [0, 0, 0, 50]
    assert {file.name for file in path.parent.iterdir()} <= {
        "ledger.db",
        "ledger.db-wal",
        "ledger.db-shm",
    }


# What is read and written at once


def test_an_enrolment_of_many_cells_is_that_of_each(tmp_path: Path) -> None:
    many = [sample_cell(number) for number in range(2500)]
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        assert ledger.enroll(many[::2]) == 1250
        assert ledger.enroll([*many, *many]) == 1250
        wanted = [cell.fingerprint for cell in (*many[::2], *many[1::2])]
        assert [record.fingerprint for record in ledger.cells()] == wanted
        assert ledger.enroll(sample_cell(number, priority=5) for number in range(2500)) == 0
        assert ledger.events()[-1].data == {"new": 0, "changed": 2500}


@pytest.mark.parametrize("step", [1, 2, 3, 499])
def test_few_and_most_cells_are_read_in_the_order_of_enrolment(tmp_path: Path, step: int) -> None:
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS)
        done = {claim.lease.fingerprint for claim in ledger.claim(ME, Offer(), 300)}
        chosen = [cell.fingerprint for cell in CELLS[::step]]
        shown = [record.fingerprint for record in ledger.cells(among=chosen[::-1])]
        assert shown == chosen
        running = [r.fingerprint for r in ledger.cells(among=chosen, states=["running"])]
        assert running == [fingerprint for fingerprint in chosen if fingerprint in done]


def test_a_claim_brings_the_cell_as_the_ledger_has_it(tmp_path: Path) -> None:
    first = sample_cell()
    renamed = replace(first, model=replace(first.model, name="another name"), priority=7)
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll([first])
        ledger.enroll([renamed])
        (claim,) = ledger.claim(ME, Offer())
        assert (claim.cell.model.name, claim.cell.priority) == ("tiny", 7)
        ledger.release([claim.lease], "to be claimed again")
        ledger.enroll([replace(first, priority=7)])
        assert ledger.claim(ME, Offer())[0].cell.to_dict() == claim.cell.to_dict()


def test_what_a_power_cut_may_take_back_is_claims_and_renewals_alone(tmp_path: Path) -> None:
    syncs: list[int] = []

    def synced() -> bool:
        """Whether the last commit waited for the disk."""
        waited = bool(syncs)
        syncs.clear()
        return waited

    with closing(open_ledger(tmp_path / "ledger.db", sync=syncs.append)) as ledger:
        ledger.enroll(CELLS[:3])
        assert synced()
        claims = ledger.claim(ME, Offer(), 3)
        assert not synced()
        ledger.finish(claims[0].lease, SUCCESS)
        assert synced()
        ledger.renew([claims[1].lease])
        assert not synced()
        ledger.release([claims[1].lease], "given back")
        assert synced()
        ledger.renew([claims[2].lease])
        ledger.record(Event(kind="cancel_asked", fingerprint=claims[2].lease.fingerprint))
        assert synced()


def test_a_claim_does_not_wait_for_the_disk_of_a_finish(tmp_path: Path) -> None:
    waiting, goes_on = threading.Event(), threading.Event()

    def slow(log: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            waiting.set()
            assert goes_on.wait(30)
        os.fsync(log)

    with closing(open_ledger(tmp_path / "ledger.db", sync=slow)) as ledger:
        ledger.enroll(CELLS[:2])
        (claim,) = ledger.claim(ME, Offer())
        finishing = threading.Thread(target=ledger.finish, args=(claim.lease, SUCCESS))
        finishing.start()
        assert waiting.wait(30)
        assert len(ledger.claim(ME, Offer())) == 1
        assert finishing.is_alive()
        goes_on.set()
        finishing.join()


def test_a_disk_that_does_not_keep_what_was_written_is_told(tmp_path: Path) -> None:
    def fails(log: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS[:1])
        ledger._sync = fails
        (claim,) = ledger.claim(ME, Offer())
        with pytest.raises(LedgerUnreachable, match="does not say that it keeps"):
            ledger.finish(claim.lease, SUCCESS)
        ledger._sync = os.fsync  # the kernel has told it once, and would not again
        with pytest.raises(LedgerUnreachable, match="does not say that it keeps"):
            ledger.record(Event(kind="said", fingerprint=CELLS[0].fingerprint))


def test_finishes_that_wait_for_the_disk_are_synced_together(tmp_path: Path) -> None:
    syncs: list[int] = []
    waiting, goes_on = threading.Event(), threading.Event()

    def slow(log: int) -> None:
        syncs.append(sum(r.state == "success" for r in ledger.cells()))
        waiting.set()
        assert goes_on.wait(30)

    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS[:4])
        claims = ledger.claim(ME, Offer(), 4)
        ledger._sync = slow
        first, *others = [
            threading.Thread(target=ledger.finish, args=(claim.lease, SUCCESS)) for claim in claims
        ]
        first.start()
        assert waiting.wait(30)
        for thread in others:
            thread.start()
        while counts(ledger.cells()).success < 4:
            time.sleep(0.01)
        assert all(thread.is_alive() for thread in (first, *others))
        goes_on.set()
        for thread in (first, *others):
            thread.join()
    assert syncs == [1, 4]


# What a claim costs


def steps_of_a_claim(ledger: SqliteLedger, offer: Offer) -> int:
    """The instructions that SQLite runs for one claim, counted in hundreds."""
    ledger.release([claim.lease for claim in ledger.claim(ME, offer)], "to set up what it keeps")
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    ledger._connection.set_progress_handler(count, 100)
    claims = ledger.claim(ME, offer)
    ledger._connection.set_progress_handler(None, 0)
    assert claims
    ledger.release([claim.lease for claim in claims], "measured")
    return steps


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("crowd", ["pending", "too large", "waiting", "ended", "cancelled"])
def test_a_claim_costs_the_same_however_many_cells_cannot_be_claimed(
    tmp_path: Path, crowd: str, loaded: bool
) -> None:
    costs = []
    for size in (100, 3000):
        with closing(open_ledger(tmp_path / f"{size}.db", clock=FakeClock())) as ledger:
            many = [sample_cell(n, gpus=8 * (crowd == "too large")) for n in range(size)]
            few = [sample_cell(n, config="few", gpus=1) for n in range(5)]
            assert ledger.enroll([*many, *few]) == size + 5
            if crowd in ("waiting", "ended"):
                retry = 100.0 if crowd == "waiting" else None
                for claim in ledger.claim(ME, Offer(), size):
                    ledger.finish(claim.lease, Outcome(state="failed", retry_in=retry))
            if crowd == "cancelled":
                for cell in many[: size // 10]:
                    ledger.record(Event(kind="cancel_asked", fingerprint=cell.fingerprint))
            key = few[0].model.load_key
            offer = Offer(gpus=2, models={key: -1.0} if loaded else {})
            chosen = Offer(
                gpus=2,
                models=offer.models,
                among=Choice(cell.fingerprint for cell in (*many[: size // 2], *few)),
            )
            last = Offer(gpus=2, models=offer.models, among=Choice(c.fingerprint for c in few))
            costs.append([steps_of_a_claim(ledger, o) for o in (offer, chosen, last)])
    for small, large in zip(*costs, strict=True):
        assert large <= small + 3


# Damage


def filled(path: Path) -> Path:
    with closing(open_ledger(path)) as ledger:
        ledger.enroll(CELLS)
        for claim in ledger.claim(ME, Offer(), 20):
            ledger.finish(claim.lease, SUCCESS)
    return path


def use(path: Path) -> None:
    with closing(open_ledger(path)) as ledger:
        assert len(list(ledger.cells(whole=True))) == len(CELLS)
        ledger.claim(ME, Offer())


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_to_a_few_bytes(path: Path) -> None:
    os.truncate(path, 50)


def cut_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def overwrite_the_head(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\x5a" * 4096)


def overwrite_all_but_the_head(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x5a" * (size - 4096))


def replace_by_text(path: Path) -> None:
    path.write_text("no ledger at all\n" * 1000)


def replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_another_database(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table meta (key text, value text)")
        connection.commit()


@pytest.mark.parametrize(
    "damage",
    [
        cut_in_half,
        cut_to_a_few_bytes,
        cut_to_nothing,
        overwrite_the_head,
        overwrite_all_but_the_head,
        replace_by_text,
        replace_by_a_folder,
        replace_by_another_database,
    ],
)
def test_a_damaged_ledger_is_named_with_what_to_do(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = filled(tmp_path / "ledger.db")
    use(path)
    damage(path)
    with pytest.raises(LedgerUnreachable) as caught:
        use(path)
    message = str(caught.value)
    assert str(path) in message
    assert "aside" in message
    assert "`benchfleet ledger rebuild CAMPAIGN`" in message


@pytest.mark.parametrize(
    ("harm", "damaged"),
    [
        (cut_in_half, True),
        (cut_to_a_few_bytes, True),
        (cut_to_nothing, True),
        (overwrite_the_head, True),
        (overwrite_all_but_the_head, True),
        (replace_by_text, True),
        (replace_by_a_folder, False),
        (replace_by_another_database, False),  # somebody's, and perhaps a whole one
    ],
)
def test_only_what_cannot_be_read_any_more_is_called_damaged(
    tmp_path: Path, harm: Callable[[Path], None], damaged: bool
) -> None:
    path = filled(tmp_path / "ledger.db")
    use(path)
    harm(path)
    with pytest.raises(LedgerUnreachable) as caught:
        use(path)
    assert isinstance(caught.value, LedgerDamaged) == damaged


def test_a_ledger_that_is_damaged_while_it_is_open_says_so(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with closing(open_ledger(path)) as ledger:
        overwrite_all_but_the_head(path)
        with pytest.raises(LedgerUnreachable, match=re.escape(str(path))):
            list(ledger.cells(whole=True))


def test_a_ledger_of_a_newer_schema_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update meta set value = '99' where key = 'schema'")
        connection.execute("drop table event")  # what a newer schema may well have done
        connection.commit()
        connection.execute("pragma journal_mode = delete")
    before = path.read_bytes()
    with pytest.raises(LedgerTooNew, match=r"its schema is 99, this one knows \d+; upgrade"):
        open_ledger(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]


def test_the_ledger_of_another_campaign_is_refused_by_name(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match="of campaign 'study', not of 'other'"):
        SqliteLedger(path, campaign="other")


@pytest.mark.parametrize("leftover", ["ledger.db-wal", "ledger.db-shm"])
def test_what_a_moved_ledger_left_behind_is_not_mixed_into_a_new_one(
    tmp_path: Path, leftover: str
) -> None:
    path = tmp_path / "ledger.db"
    (tmp_path / leftover).write_bytes(b"old")
    with pytest.raises(LedgerUnreachable, match=f"{leftover} was left by a ledger that is gone"):
        open_ledger(path)
    assert not path.exists()


def test_a_network_file_system_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    mounts = f"server:/x {tmp_path} nfs4 rw 0 0\n"
    with pytest.raises(LedgerUnreachable, match=r"\(nfs4\).*--ledger sqlite:///local/path"):
        SqliteLedger(folder / "ledger.db", campaign="study", mounts=lambda: mounts)
    assert not folder.exists()


def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with closing(open_ledger(path)) as ledger:
        pages = ledger._connection.execute("pragma page_count").fetchone()[0]
        ledger._connection.execute(f"pragma max_page_count = {pages}")
        with pytest.raises(LedgerUnreachable, match="make room on the disk") as caught:
            ledger.enroll(sample_cell(number, config="more") for number in range(500))
        assert not isinstance(caught.value, LedgerDamaged)
        assert counts(ledger.cells()).total == len(CELLS)
        ledger._connection.execute("pragma max_page_count = 100000")
        assert ledger.enroll([sample_cell(0, config="more")]) == 1


def test_a_claim_that_was_rolled_back_is_not_followed(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    chosen = Choice(cell.fingerprint for cell in CELLS)
    with closing(open_ledger(path)) as ledger, closing(open_ledger(path)) as other:
        claims = [*ledger.claim(ME, Offer(among=chosen), 10)]
        pages = ledger._connection.execute("pragma page_count").fetchone()[0]
        ledger._connection.execute(f"pragma max_page_count = {pages}")
        with pytest.raises(LedgerUnreachable, match="make room on the disk"):
            ledger.claim(ME, Offer(among=chosen), 400)
        ledger._connection.execute("pragma max_page_count = 100000")
        claims += other.claim(ME, Offer(among=chosen), 20)
        claims += ledger.claim(ME, Offer(among=chosen), len(CELLS))
    ended = 20
    assert len({claim.lease.fingerprint for claim in claims}) == len(claims) == len(CELLS) - ended


def test_a_choice_follows_two_handles_that_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_ledger(path)) as one, closing(open_ledger(path)) as two:
        one.enroll(CELLS[:60])
        chosen = Choice(cell.fingerprint for cell in CELLS[:60])
        ended = []
        for turn in range(60):
            here, other = (one, two) if turn % 3 else (two, one)
            (claim,) = here.claim(ME, Offer(among=chosen))
            if turn % 5 == 0:  # it comes back
                other.release([claim.lease], "another is to have it")
                (claim,) = here.claim(ME, Offer(among=chosen))
            (other if turn % 2 else here).finish(claim.lease, SUCCESS)
            ended.append(claim.lease.fingerprint)
        assert not [*one.claim(ME, Offer(among=chosen)), *two.claim(ME, Offer(among=chosen))]
    assert sorted(ended) == sorted(cell.fingerprint for cell in CELLS[:60])


def test_another_writer_that_does_not_end_is_named(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as writer,
        closing(SqliteLedger(path, campaign="study", busy=0.0)) as ledger,
    ):
        writer.execute("begin immediate")
        with pytest.raises(LedgerUnreachable, match="another process has been writing") as caught:
            ledger.claim(ME, Offer())
        assert not isinstance(caught.value, LedgerDamaged)
        assert counts(ledger.cells()).total == len(CELLS)
        writer.execute("rollback")
        assert ledger.claim(ME, Offer())


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"), [(0o444, 0o777), (0o000, 0o777), (0o666, 0o555), (0o666, 0o000)]
)
def test_a_ledger_without_permissions_is_named(
    ordinary_user: OrdinaryUser, file_mode: int, folder_mode: int
) -> None:
    outer = Path(tempfile.mkdtemp())
    try:
        outer.chmod(0o755)
        folder = outer / "results"
        folder.mkdir()
        path = filled(folder / "ledger.db")
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        message = ordinary_user(lambda: use(path))
        assert message.startswith("LedgerUnreachable")
        assert str(folder) in message
        assert "ermission" in message
    finally:
        folder.chmod(0o755)
        shutil.rmtree(outer)


@pytest.mark.parametrize("inside", ["ledger.db", "results/ledger.db"])
def test_a_folder_where_no_ledger_can_be_made_is_named(
    ordinary_user: OrdinaryUser, inside: str
) -> None:
    outer = Path(tempfile.mkdtemp())
    try:
        outer.chmod(0o555)
        message = ordinary_user(lambda: use(outer / inside))
        assert message.startswith("LedgerUnreachable")
        assert str(outer) in message
        assert "ermission" in message
        assert list(outer.iterdir()) == []
    finally:
        outer.chmod(0o755)
        shutil.rmtree(outer)
