"""``benchfleet merge``: the results of several hosts in one folder, each checked."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.names import path_part
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any

from .conftest import MOCK, User

CPU = ("--cpu-slots", "1")
LEDGER = ("--ledger", "sqlite:shared.db")
ALL = ["m1/dense/mock_benchmark", "m2/dense/mock_benchmark"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hosts that made a result each, in folders of their own."""
    user = User(tmp_path_factory.mktemp("hosts"))
    user.write(MOCK)
    user.run("ledger", "init", "study.yaml", *LEDGER)
    shutil.copy(user.folder / "shared.db", user.folder / "backup.db")
    for host in ("1", "2"):
        only = ("--models", f"m{host}", "--results", f"host{host}")
        user.run("work", "study.yaml", *LEDGER, *CPU, *only)
    return user.folder


@pytest.fixture
def hosts(user: User, made: Path) -> User:
    """A copy of them."""
    shutil.copytree(made, user.folder, dirs_exist_ok=True)
    return user


def public(user: User, base: str) -> dict[str, bytes]:
    root = user.folder / base / "study"
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in sorted(root.glob("[!.]*/*/*/*"))
        if file.is_file()
    }


def test_what_each_host_has_comes_together_once(hosts: User) -> None:
    at = ("study.yaml", *LEDGER, "--results", "all")
    lacking = hosts.run("merge", *at, code=1).stdout
    assert "2 results are done, 0 here" in lacking
    assert f"missing  {ALL[0]}  last seen at " in lacking
    sources = ("--from", "host2/../host1", "--from", "host2/study")
    came = hosts.json("merge", *at, *sources)["came"]
    assert sorted(came) == ALL
    assert {Path(where).parts[-1] for where in came.values()} == {"host1", "study"}
    assert not any(".." in where for where in came.values())
    made = public(hosts, "all")
    assert made == {**public(hosts, "host1"), **public(hosts, "host2")}
    again = hosts.json("merge", *at, *sources)
    assert (again["came"], again["missing"], again["refused"]) == ({}, {}, [])
    assert public(hosts, "all") == made
    report = hosts.run("report", *at).stdout
    assert "m1" in report
    assert "m2" in report
    assert "2 done (2 reused)" in hosts.run("run", *at, *CPU).stdout


def test_a_source_that_holds_nothing_of_the_campaign_is_named(hosts: User) -> None:
    (hosts.folder / "others" / "another").mkdir(parents=True)
    at = ("study.yaml", *LEDGER, "--results", "all", "--from", "host1", "--from", "others")
    output = hosts.run("merge", *at, code=1).stdout
    assert output.count("empty    ") == 1
    assert "empty    others has no finished result of study" in output
    assert "the results folder, or its parent" in output
    again = hosts.json("merge", *at, code=1)  # what host1 holds is here already
    assert (again["came"], again["nothing"]) == ({}, ["others"])


def test_what_each_other_host_did_is_written_beside_the_results(
    hosts: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_HOST", "desk")
    hosts.run("merge", "study.yaml", *LEDGER, "--results", "all", "--from", "host1", code=1)
    name = f"{path_part(socket.gethostname())}_summary.json"
    output = json.loads((hosts.folder / "all/study" / name).read_text())
    own = json.loads((hosts.folder / "host2/study" / name).read_text())
    assert sorted(one["result"] for one in output["results"]) == ALL
    assert output["results"] == own["results"]
    assert not (hosts.folder / "all/study/desk_summary.json").exists()
    combined = json.loads((hosts.folder / "all/study/combined_results.json").read_text())
    assert combined == {name: output}


def test_a_host_of_a_name_that_leads_elsewhere_gets_no_summary(user: User) -> None:
    user.write(MOCK)
    user.run("ledger", "init", "study.yaml", *LEDGER)
    with closing(SqliteLedger(user.folder / "shared.db", campaign="study")) as ledger:
        ledger.enroll([sample_cell(0), sample_cell(1)])
        hosts = ("../../evil", "lab/../../evil")
        for host, claim in zip(hosts, claim_any(ledger, RunnerId("x"), 2), strict=True):
            ledger.finish(claim.lease, Outcome(state="failed", host=host))
    user.run("merge", "study.yaml", *LEDGER)
    found = [file.relative_to(user.folder) for file in user.folder.rglob("*_summary.json")]
    assert [str(file) for file in found] == ["benchmark_results/study/lab_.._.._evil_summary.json"]
    combined = json.loads((user.results / "combined_results.json").read_text())
    assert list(combined) == ["lab_.._.._evil_summary.json"]


def test_one_host_s_results_that_are_elsewhere_are_not_called_gone(hosts: User) -> None:
    output = hosts.json("status", "study.yaml", *LEDGER, "--results", "host1")
    assert (output["gone"], list(output["elsewhere"])) == ([], [ALL[1]])
    shutil.rmtree(hosts.folder / "host1/study/m1")
    output = hosts.json("status", "study.yaml", *LEDGER, "--results", "host1")
    assert output["gone"] == [ALL[0]]


@pytest.mark.parametrize("verb", ["rebuild", "work"])
def test_a_new_ledger_learns_again_where_each_result_is(hosts: User, verb: str) -> None:
    """The ledger was lost, or restored from a backup that is older than the results."""
    for file in hosts.folder.glob("shared.db*"):
        file.unlink()
    if verb == "work":
        (hosts.folder / "backup.db").rename(hosts.folder / "shared.db")
    for host in ("1", "2"):
        at = ("study.yaml", *LEDGER, "--results", f"host{host}")
        if verb == "work":
            hosts.run("work", *at, *CPU, "--models", f"m{host}")
        else:
            hosts.run("ledger", "rebuild", *at)
    for host, other in (("host1", ALL[1]), ("host2", ALL[0])):
        output = hosts.json("status", "study.yaml", *LEDGER, "--results", host)
        assert (output["gone"], list(output["elsewhere"])) == ([], [other])


def tamper(folder: Path) -> None:
    (folder / "metrics.json").write_text('{"overall_score": 1.0}')


def forge(folder: Path) -> None:
    file = folder / "cell.json"
    file.write_text(file.read_text().replace('"attempt": 1', '"attempt": 2'))


def link(folder: Path) -> None:
    (folder / "log.txt").unlink()
    (folder / "log.txt").symlink_to("/etc/passwd")


def link_above(folder: Path) -> None:
    folder.parent.rename(folder.parent.parent / "real")
    folder.parent.symlink_to("real")


def add(folder: Path) -> None:
    (folder / "extra.sh").write_text("rm -rf /")


def name_what_is_outside(folder: Path) -> None:
    file = folder / "cell.json"
    cell = json.loads(file.read_text())
    cell["files"]["../../../../../../escaped"] = "0" * 64
    file.write_text(json.dumps(cell))


def lose(folder: Path) -> None:
    (folder / "samples.jsonl").unlink()


@pytest.mark.parametrize(
    ("harm", "printed"),
    [
        (tamper, "metrics.json is not as it was sealed"),
        (forge, "cell.json is not the one that the ledger has"),
        (link, "log.txt is not a plain file"),
        (link_above, "is a link"),
        (add, "extra.sh is not in its seal"),
        (name_what_is_outside, "cell.json is not the one that the ledger has"),
        (lose, "samples.jsonl is missing"),
    ],
)
def test_what_is_not_as_it_was_sealed_is_refused_by_name(
    hosts: User, harm: Callable[[Path], None], printed: str
) -> None:
    harm(hosts.folder / "host1/study" / ALL[0])
    at = ("study.yaml", *LEDGER, "--results", "all", "--from", "host1", "--from", "host2")
    output = hosts.json("merge", *at, code=1)
    assert (sorted(output["came"]), list(output["missing"])) == ([ALL[1]], [ALL[0]])
    assert printed in next(one["why"] for one in output["refused"])
    assert sorted({name.rpartition("/")[0] for name in public(hosts, "all")}) == [ALL[1]]
    assert os.listdir(hosts.folder / "all/study/.arrivals") == []
    assert not (hosts.folder / "escaped").exists()


def test_a_host_without_the_file_merges_what_the_place_has(user: User) -> None:
    (user.folder / "srv").mkdir()
    user.write(f"results: file://{user.folder}/srv\n{MOCK}")
    user.run("work", "study.yaml", *LEDGER, *CPU, "--results", "host1")
    shutil.rmtree(user.folder / "host1")
    (user.folder / "study.yaml").unlink()
    output = user.json("merge", *LEDGER)
    assert sorted(output["came"]) == ALL
    assert len(user.published()) == 2
    tampered = user.results / ALL[0] / "metrics.json"
    tampered.write_text("{}")
    os.rename(user.folder / "srv", user.folder / "away")
    again = user.json("merge", *LEDGER, code=1)
    assert again["unsound"] == {ALL[0]: "metrics.json is not as it was sealed"}
    os.rename(user.folder / "away", user.folder / "srv")
    again = user.json("merge", *LEDGER)
    assert (list(again["came"]), list(again["replaced"]), again["unsound"]) == (
        [ALL[0]], [ALL[0]], {}
    )  # fmt: skip
    assert tampered.read_text() != "{}"
    assert (user.results / again["replaced"][ALL[0]] / "metrics.json").read_text() == "{}"


def test_a_result_that_cannot_be_merged_is_reported(user: User) -> None:
    user.write(MOCK)
    refused = user.run("merge", "study.yaml", code=3).stderr
    assert "has no ledger of 'study': nothing has run there; if it ran elsewhere, name" in refused
    for verb in (["release", "--host", "lab2"], ["reap"], ["ledger", "check"]):
        assert user.run(*verb, "study.yaml", code=3).stderr == refused
    user.run("run", "study.yaml", *CPU)
    assert (
        "no folder nowhere" in user.run("merge", "study.yaml", "--from", "nowhere", code=2).stderr
    )
    near = user.run("merge", "study.yaml", "--from", "rsnc://host/dir", code=2).stderr
    assert "did you mean 'rsync'?" in near
