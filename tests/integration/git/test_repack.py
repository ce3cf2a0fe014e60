"""The loose objects of a mirror go into packs while others read and write there."""

from __future__ import annotations

import fcntl
from contextlib import closing
from pathlib import Path

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.git.objects import Objects
from benchfleet.git.process import Git
from benchfleet.git.repack import Repacker
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from repositories import git, make_bare


def counts(folder: Path) -> dict[str, int]:
    lines = git(folder, "count-objects", "-v").splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def test_what_is_loose_is_packed_and_all_is_found_again(tmp_path: Path) -> None:
    folder = make_bare(tmp_path / "own.git")
    with closing(Objects(Git(folder))) as objects:
        packer = Repacker(Git(folder), least=256)
        made: list[str] = []
        for batch in range(4):
            number = 0
            while not (folder / "objects" / "17").exists() or number < 5:
                made.append(objects.blob(f"{batch} {number}\n".encode()))
                number += 1
            assert objects.has(made[0])
            packer.start()
            packer.close()
            assert counts(folder)["count"] == 0
        assert all(objects.has(oid) for oid in made)  # also for who began to read before
    assert git(folder, "fsck", "--no-dangling") == ""


def test_only_one_process_packs_and_few_objects_stay_loose(tmp_path: Path) -> None:
    folder = make_bare(tmp_path / "own.git")
    with closing(Objects(Git(folder))) as objects:
        objects.blob(b"alone")
    packer = Repacker(Git(folder))
    packer.start()
    packer.close()
    with (folder / "packing").open("w") as another:
        fcntl.flock(another, fcntl.LOCK_EX)
        packer.pack()
        assert counts(folder)["count"] == 1
    packer.pack()
    assert counts(folder) | {"size-pack": 0} == {**counts(folder), "in-pack": 1, "size-pack": 0}


def test_a_ledger_goes_on_over_a_mirror_that_was_packed(tmp_path: Path) -> None:
    bare, me = make_bare(tmp_path / "lab.git"), RunnerId("me")
    url = f"git+file://{bare}"
    with closing(GitLedger(url, campaign="study", folder=tmp_path / "mine", max_age=0.0)) as ledger:
        ledger.enroll([sample_cell(number) for number in range(3)])
        first, second = claim_any(ledger, me, 2)
        Repacker(ledger.store.git).pack()
        ledger.finish(first.lease, Outcome(state="success", digest="abc"))
        assert ledger.renew([second.lease]) == [second.lease]
        assert counts(ledger.store.git.folder)["packs"] == 1
    with closing(GitLedger(url, campaign="study", folder=tmp_path / "mine", max_age=0.0)) as ledger:
        assert sorted(r.state for r in ledger.cells()) == ["pending", "running", "success"]
