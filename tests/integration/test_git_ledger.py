"""The ledger in git with a real remote, real processes and real mishaps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import Lease, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Offer
from benchfleet.errors import (
    ClaimLost,
    GitAway,
    LedgerAbsent,
    LedgerDamaged,
    LedgerError,
    LedgerUnreachable,
)
from benchfleet.git.objects import Objects
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.git.log import lines_of
from benchfleet.ledger.history import counts
from benchfleet.testing import FakeClock, sample_cell
from git_workers import lines, published, rest, workers
from repositories import git, make_bare

ME = RunnerId("me")
SUCCESS = Outcome(state="success", digest="abc")
CELLS = [sample_cell(number, model=f"model-{number % 7}") for number in range(300)]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return make_bare(tmp_path / "lab.git")


@pytest.fixture
def start(bare: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts workers, and ends what is left of them."""
    with workers(f"git+file://{bare}", tmp_path) as start:
        yield start


def opened(bare: Path, name: str = "mine", **how: Any) -> GitLedger:
    settings = {"campaign": "study", "fresh": 0.0, "patience": 0.0, **how}
    return GitLedger(f"git+file://{bare}", folder=bare.parent / name, **settings)


def test_workers_that_are_killed_stopped_cut_off_and_refused_run_each_cell_once(
    bare: Path, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    with closing(opened(bare, "first")) as ledger:
        assert ledger.enroll(CELLS) == len(CELLS)
    killed = [start("killed-1"), start("killed-2", batch=5)]
    stopped = start("stopped", batch=4)
    ahead = start("ahead", hours=1, batch=2)
    workers = [start("steady-1"), start("steady-2", batch=1), start("steady-3", slow=0.05)]
    told = [lines(worker, 1 + 8 * place) for place, worker in enumerate(killed, start=1)]
    for worker in killed:
        worker.send_signal(signal.SIGKILL)
    told += [rest(worker) for worker in killed]
    told.append(lines(stopped, 6))
    stopped.send_signal(signal.SIGSTOP)
    since = time.monotonic()
    workers.append(start("killed-1"))  # again, in its folder
    lines(workers[-1], 1)
    lines(ahead, 8)
    bare.rename(tmp_path / "away.git")
    time.sleep(2.0)
    for left in (tmp_path / "away.git").rglob("*.lock"):  # of a push that lost its folder just then
        left.unlink()
    (tmp_path / "away.git").rename(bare)
    hook = bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho not now >&2\nexit 1\n")
    hook.chmod(0o755)
    time.sleep(1.5)
    hook.unlink()
    time.sleep(max(0.0, 7.5 - (time.monotonic() - since)))  # more than a lease
    with closing(opened(bare, "first", lease=6.0)):
        pass
    stopped.send_signal(signal.SIGCONT)
    told += [rest(worker) for worker in (stopped, ahead, *workers)]
    assert all(worker.returncode == 0 for worker in (stopped, ahead, *workers))
    with closing(opened(bare, "last")) as ledger:
        records = {record.fingerprint: record for record in ledger.cells()}
        shown = counts(records.values())
        assert (shown.success, shown.total) == (len(CELLS), len(CELLS))
        finished = Counter(e.fingerprint for e in ledger.events(kinds=["finished"]))
        assert finished == {cell.fingerprint: 1 for cell in CELLS}
        ledger.store.complete()  # as whoever merges does: the remote was taken away in between
    promised = Counter(line for said in told for line in said if len(line) == 64)
    assert set(promised) <= set(finished)
    assert set(promised.values()) == {1}
    assert published(bare) == {
        fingerprint: [record.outcome.digest]
        for fingerprint, record in records.items()
        if record.outcome
    }
    assert git(bare, "fsck", "--no-dangling", "--no-progress") == ""
    reads_well(bare)


@pytest.mark.parametrize("name", ["pre-receive", "post-receive"])
def test_a_worker_that_is_killed_while_its_push_is_taken_in_leaves_all_of_it_or_nothing(
    bare: Path, tmp_path: Path, start: Callable[..., subprocess.Popen[str]], name: str
) -> None:
    with closing(opened(bare, "first")) as ledger:
        ledger.enroll(CELLS[:12])
    killed = start("killed", slow=0.1)
    told = [lines(killed, 3)]
    pid = tmp_path / "pid"
    hook = bare / "hooks" / name
    hook.write_text(f"#!/bin/sh\nmv {pid} {pid}.used && kill -9 $(cat {pid}.used)\nexit 0\n")
    hook.chmod(0o755)
    (tmp_path / "written").write_text(str(killed.pid))
    (tmp_path / "written").rename(pid)
    told.append(rest(killed))
    assert killed.returncode == -signal.SIGKILL
    other = start("other", lease=1)
    told.append(rest(other))
    assert other.returncode == 0
    with closing(opened(bare, "last")) as ledger:
        finished = Counter(e.fingerprint for e in ledger.events(kinds=["finished"]))
        outcomes = {record.fingerprint: record.outcome for record in ledger.cells()}
    assert finished == {cell.fingerprint: 1 for cell in CELLS[:12]}
    promised = Counter(line for said in told for line in said if len(line) == 64)
    assert set(promised.values()) == {1}
    assert published(bare) == {name: [o.digest] for name, o in outcomes.items() if o is not None}
    assert git(bare, "fsck", "--no-dangling", "--no-progress") == ""


def reads_well(bare: Path) -> None:
    """The log of the ledger says what happened, as people would have said it."""
    said = git(bare, "log", "--format=%s", "--glob=refs/benchfleet/study/log").splitlines()
    verbs = Counter(line.split()[0] for line in said)
    assert set(verbs) <= {"claim", "finish", "reap"}
    assert verbs["finish"] == len(CELLS)
    branches = git(bare, "log", "--format=%s", "--glob=refs/heads/machine").splitlines()
    entries = {f"finish {cell.workload.label}_{cell.model.name}_dense_0" for cell in CELLS}
    assert sorted(branches) == sorted(entries)


def test_a_worker_whose_lease_was_taken_publishes_nothing(bare: Path) -> None:
    def files(objects: Objects, tree: str, *_: object) -> str:
        return objects.with_file(tree, "result", objects.blob(b"of a zombie"))

    clock = FakeClock()
    with (
        closing(opened(bare, "zombie", files=files, clock=clock)) as zombie,
        closing(opened(bare, "other", clock=clock, lease=60.0)) as other,
    ):
        zombie.enroll(CELLS[:1])
        (held,) = zombie.claim(ME, Offer())
        other.look()
        clock.advance(61.0)
        assert list(other.reap()) == [held.lease.fingerprint]
        assert len(other.claim(RunnerId("other"), Offer())) == 1
        with pytest.raises(ClaimLost):
            zombie.finish(held.lease, SUCCESS)
        assert list(zombie.renew([held.lease])) == []
    assert git(bare, "for-each-ref", "refs/heads") == ""


def test_a_heartbeat_that_others_see_begins_the_lease_anew(bare: Path) -> None:
    clock = FakeClock()
    with (
        closing(opened(bare, "one", clock=clock, lease=60.0)) as one,
        closing(opened(bare, "two", clock=clock, lease=60.0)) as two,
    ):
        one.enroll(CELLS[:3])
        leases = [claim.lease for claim in one.claim(ME, Offer(), 3)]
        two.look()
        clock.advance(40.0)
        assert one.renew(leases[:2]) == leases[:2]
        two.look()
        clock.advance(40.0)
        assert list(two.reap()) == [leases[2].fingerprint]
        assert one.renew(leases) == leases[:2]
        clock.advance(59.0)
        assert list(two.reap()) == []


def test_what_could_not_be_told_waits_in_the_outbox_and_is_told_at_the_next_opening(
    bare: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away.git"
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS[:2])
        first, second = ledger.claim(ME, Offer(), 2)
        bare.rename(away)
        for claim in (first, second):
            with pytest.raises(LedgerUnreachable, match="does not appear to be a git repository"):
                ledger.finish(claim.lease, SUCCESS)
    away.rename(bare)
    with closing(opened(bare, "another")) as other:
        other.release([second.lease], "taken away")  # as a person may
        assert [record.state for record in other.cells()] == ["running", "pending"]
    with closing(opened(bare)) as ledger:
        assert [record.state for record in ledger.cells()] == ["success", "pending"]
        assert not list(ledger.store.folder.glob("outbox/*"))


def test_while_the_remote_is_away_readers_see_what_was_seen_and_nothing_is_claimed(
    bare: Path, tmp_path: Path
) -> None:
    with closing(opened(bare, patience=60.0)) as ledger:
        ledger.enroll(CELLS[:2])
        bare.rename(tmp_path / "away.git")
        assert [record.state for record in ledger.cells()] == ["pending", "pending"]
        assert list(ledger.claim(ME, Offer())) == []
        assert list(ledger.reap()) == []
        (tmp_path / "away.git").rename(bare)
        assert len(ledger.claim(ME, Offer(), 2)) == 2


def test_a_push_of_which_nothing_was_heard_is_not_done_twice(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(bare, patience=60.0)) as ledger:
        ledger.enroll(CELLS[:2])
        remote, calls = ledger.store.remote, []
        push = remote.push

        def breaks(swaps: Any, **more: Any) -> bool:
            calls.append(push(swaps, **more))
            if len(calls) % 2:
                raise GitAway("the line broke")
            return True

        monkeypatch.setattr(remote, "push", breaks)
        (claim,) = ledger.claim(ME, Offer())
        assert claim.lease.fingerprint == CELLS[0].fingerprint
        calls.clear()
        ledger.finish(claim.lease, SUCCESS)
        kinds = [event.kind for event in ledger.events()]
        assert kinds == ["enrolled", "claimed", "finished"]


def test_enrolments_of_many_at_once_make_one_order(bare: Path) -> None:
    with closing(opened(bare, "one")) as one, closing(opened(bare, "two")) as two:
        assert one.enroll(CELLS[:20]) == 20
        assert two.enroll(CELLS[10:30]) == 10
        assert one.enroll([sample_cell(0, model="model-0", priority=9)]) == 0
        assert [r.fingerprint for r in two.cells()] == [c.fingerprint for c in CELLS[:30]]
        assert two.claim(ME, Offer())[0].cell.priority == 9
        assert [e.data for e in two.events(kinds=["enrolled"])] == [
            {"new": 20, "changed": 0},
            {"new": 10, "changed": 0},
            {"new": 0, "changed": 1},
        ]


def test_installations_seldom_want_the_same_cell(bare: Path) -> None:
    names = ("one", "two", "three")
    ledgers = [opened(bare, name, fresh=60.0) for name in names]
    ledgers[0].enroll([*CELLS[:99], sample_cell(100, priority=5), sample_cell(101, priority=5)])
    for ledger in ledgers:
        ledger.record(Event(kind="run_began"))
    for ledger in ledgers:
        ledger.look()
    pushes = [counted(ledger) for ledger in ledgers]
    taken = [ledger.claim(ME, Offer(), 1)[0].cell.priority for ledger in ledgers]
    assert taken.count(5) >= 1  # the larger priority goes first, whosever share it is
    for _ in range(4):
        for ledger in ledgers:
            assert len(ledger.claim(ME, Offer(), 5)) == 5
    assert sum(told.count(False) for told in pushes) <= 3
    for ledger in ledgers:
        ledger.close()


def counted(ledger: GitLedger) -> list[bool]:
    """What became of its pushes from now on."""
    push, told = ledger.store.remote.push, list[bool]()

    def count(*given: Any, **more: Any) -> bool:
        told.append(push(*given, **more))
        return told[-1]

    ledger.store.remote.push = count  # type: ignore[method-assign]
    return told


def test_refs_of_cells_that_ended_long_ago_are_compacted_and_no_cell_is_claimed_again(
    bare: Path,
) -> None:
    wall = FakeClock()
    with (
        closing(opened(bare, "one", wall=wall)) as one,
        closing(opened(bare, "stale", wall=wall, fresh=60.0)) as stale,
    ):
        one.enroll(CELLS[:3])
        stale.look()  # nothing ended, as far as it knows from here on
        for claim in one.claim(ME, Offer(), 2):
            one.finish(claim.lease, SUCCESS)
        assert one.compact() == 0
        wall.advance(2 * 86400.0)
        assert one.compact() == 2
        assert git(bare, "for-each-ref", "refs/benchfleet/study/claims") == ""
        told = counted(stale)
        claims = stale.claim(ME, Offer(), 3)
        assert [claim.lease.fingerprint for claim in claims] == [CELLS[2].fingerprint]
        assert told[0] is False
        one.record(Event(kind="retry_asked", fingerprint=CELLS[0].fingerprint))
        (again,) = stale.claim(ME, Offer(), 3) or one.claim(ME, Offer(), 3)
        assert (again.lease.attempt, again.lease.token) == (2, 2)
    with closing(opened(bare, "newcomer")) as newcomer:
        assert [r.state for r in newcomer.cells()] == ["running", "success", "running"]


# What is no ledger


def test_a_repository_without_a_ledger_and_no_repository_at_all_are_told_apart(bare: Path) -> None:
    with pytest.raises(LedgerAbsent, match="no ledger of campaign 'study'"):
        opened(bare, make=False)
    with pytest.raises(LedgerUnreachable, match="git init --bare"):
        opened(bare.with_name("nothing.git"))
    assert not bare.with_name("nothing.git").exists()


def test_a_log_that_was_rewritten_is_named(bare: Path) -> None:
    with closing(opened(bare, "one")) as one, closing(opened(bare, "two")) as two:
        one.enroll(CELLS[:2])
        one.claim(ME, Offer())
        two.look()
        tree = git(bare, "mktree", "--missing").strip()
        other = git(
            bare, "-c", "user.name=x", "-c", "user.email=x@x", "commit-tree", "-m", "x", tree
        )
        git(bare, "update-ref", one.store.log, other.strip())
        with pytest.raises(LedgerDamaged, match="never to be rewritten"):
            two.look()


def test_a_path_that_leads_out_of_the_tree_is_refused(bare: Path) -> None:
    with closing(opened(bare, "one")) as one:
        one.enroll(CELLS[:1])
        objects = one.store.objects
        commit = objects.commit_of(git(bare, "rev-parse", one.store.refs.enrolled).strip())
        found = objects.at(commit.tree, "cells-00000.jsonl.gz")
        row = json.loads(lines_of(objects.read(found[0])[1])[0])  # type: ignore[index]
        row[2] = "../../outside"
        tree = objects.tree({"cells-00000.jsonl": (objects.blob(json.dumps(row).encode()), False)})
        evil = objects.commit(tree, (), commit.message, who="x <x>", at=0.0)
        git(
            one.store.git.folder,
            "push",
            "-q",
            "--force",
            str(bare),
            f"{evil}:{one.store.refs.enrolled}",
        )
        with pytest.raises(LedgerDamaged, match=r"cannot be read|is no path"):
            opened(bare, "two")


def test_another_format_is_refused_by_name(bare: Path) -> None:
    opened(bare, "one").close()
    tree = git(bare, "mktree", "--missing").strip()
    text = 'begin\n\n{"benchfleet": 99, "campaign": "study"}'
    newer = git(bare, "-c", "user.name=x", "-c", "user.email=x@x", "commit-tree", "-m", text, tree)
    git(bare, "update-ref", "refs/benchfleet/study/ledger", newer.strip())
    with pytest.raises(LedgerError, match="newer benchfleet: its format is 99"):
        opened(bare, "two")


def test_what_was_seen_can_be_lost_and_is_read_again(bare: Path) -> None:
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS[:5])
        (claim,) = ledger.claim(ME, Offer())
        ledger.finish(claim.lease, SUCCESS)
        before = [(r.path, r.state, r.token) for r in ledger.cells()]
        kinds = [event.kind for event in ledger.events()]
        folder = ledger.store.folder
    (folder / "mirror.db").write_bytes(os.urandom(8192))
    with closing(opened(bare)) as ledger:
        assert [(r.path, r.state, r.token) for r in ledger.cells()] == before
        assert [event.kind for event in ledger.events()] == kinds
        assert len(ledger.claim(ME, Offer(), 9)) == 4
    (folder / "boot").write_text("another start of the machine")
    with closing(opened(bare)) as ledger:
        assert counts(ledger.cells()).running == 4


def test_results_that_a_remote_forgot_as_it_went_away_come_with_the_next_ones(bare: Path) -> None:
    """Refs of a repository in files change one after the other, whatever a push was promised."""

    def files(objects: Objects, tree: str, lease: Lease, *_: object) -> str:
        return objects.with_file(tree, f"results/{lease.fingerprint}", objects.blob(b"mine"))

    with closing(opened(bare, files=files)) as ledger:
        ledger.enroll(CELLS[:3])
        claims = ledger.claim(ME, Offer(), 3)
        ledger.finish(claims[0].lease, SUCCESS)
        (branch,) = git(bare, "for-each-ref", "--format=%(refname)", "refs/heads").split()
        before = git(bare, "rev-parse", branch).strip()
        ledger.finish(claims[1].lease, SUCCESS)
        git(bare, "update-ref", branch, before)
        ledger.look()
        ledger.finish(claims[2].lease, SUCCESS)
    assert set(published(bare)) == {str(claim.lease.fingerprint) for claim in claims}
