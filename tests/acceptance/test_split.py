"""One large cell on several slots and hosts: parts, joined into the result of the whole."""

from __future__ import annotations

import contextlib
import json
import signal
import uuid
from pathlib import Path

import psutil
import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.study import open_study
from postgres import Postgres
from repositories import make_bare
from sshd import Sshd

from .conftest import User, end_of, until
from .splits import RESULT, ROWS, STUDY, Whole, declare, in_one_piece, samples, score


def parts_done(user: User) -> int:
    return sum("+part" in path for path in user.published())


def test_the_result_is_that_of_a_cell_that_was_not_split(user: User, whole: Whole) -> None:
    declare(user, 1)
    out = user.run("run", "study.yaml", "--cpu-slots", "3", "--split", "3").stdout
    assert "split into 3 parts" in out
    assert (samples(user.results / RESULT), score(user.results / RESULT)) == whole
    assert list(user.published()) == [RESULT]  # the results of parts went into it
    seal = json.loads(user.published()[RESULT])
    assert len(seal["provenance"]["parts"]) == 3
    assert seal["seconds"]["benchmark"] >= ROWS * 0.02
    status = user.json("status", "study.yaml")
    assert (status["total"], status["success"], status["used"]["attempts"]) == (1, 1, 4)
    user.run("verify", "study.yaml")
    assert "1 cell: 1 success" in (user.results / "report.md").read_text()


def test_a_running_cell_is_split_when_slots_are_out_of_work(user: User, tmp_path: Path) -> None:
    """It has recorded some first answers and no second; both to a question stay together."""
    (tmp_path / "whole").mkdir()
    whole = in_one_piece(tmp_path / "whole", answers=2)
    declare(user, "auto", seconds=0.15, answers=2)
    out = user.run("run", "study.yaml", "--cpu-slots", "2").stdout
    assert "split into 2 parts" in out
    assert (samples(user.results / RESULT), score(user.results / RESULT)) == whole
    assert {(one[2], one[3] or 0) for one in whole[0]} == {
        (f"row-{number}", draw) for number in range(ROWS // 2) for draw in (0, 1)
    }
    assert list(user.published()) == [RESULT]


def test_tasks_of_lm_eval_are_split_and_score_the_same(user: User) -> None:
    """Few-shot examples are drawn as for the whole, and all answers are scored together."""
    pytest.importorskip("lm_eval")
    recall = Path(__file__).parents[2] / "examples" / "recall"
    task = {"include_path": str(recall / "tasks"), "tasks": "recall_choice", "num_fewshot": 1}
    matrix = {
        "models": [
            {"name": "m", "path": str(recall / "model"), "model_kwargs": {"dtype": "float32"}}
        ],
        "configs": {"dense": None},
        "benchmarks": [{"lm_eval": {**task, "limit": 9}}],
    }
    user.write(json.dumps({"campaign": "study", "matrix": matrix}))
    seals = {}
    for split in ("1", "2"):
        words = ("--cpu-slots", "1", "--results", split, "--ledger", f"{split}.db")
        user.run("run", "study.yaml", "--split", split, *words)
        (seal,) = (user.folder / split).rglob("cell.json")
        seals[split] = seal.parent
    assert samples(seals["2"]) == samples(seals["1"])
    assert score(seals["2"]) == score(seals["1"])
    assert len(json.loads((seals["2"] / "cell.json").read_text())["provenance"]["parts"]) == 2


@pytest.mark.parametrize("ledger", ["sqlite", "git"])
def test_a_killed_runner_loses_no_sample_of_a_part(user: User, ledger: str) -> None:
    declare(user, 4, seconds=0.1)
    words = ["run", "study.yaml", "--cpu-slots", "2"]
    if ledger == "git":
        make_bare(user.folder / "lab.git")
        words += ["--ledger", "git+file:lab.git"]
    first = user.start(*words)
    until(lambda: parts_done(user) >= 2)
    first.send_signal(signal.SIGKILL)
    first.wait()
    status = user.json("status", *words[1:2], *words[4:])
    assert status["running"] == 1  # by its parts
    (split,) = status["split"]
    assert (split["cell"], split["parts"]) == (RESULT, 4)
    assert 2 <= split["parts_ended"] < 4
    assert 0.5 <= status["share"] < 1
    text = user.run("status", *words[1:2], *words[4:]).stdout
    assert f"{RESULT}  {split['parts_ended']} of 4 parts have ended" in text
    held = [one["cell"] for one in status["holders"]]
    assert all("+part" in cell for cell in held)
    user.run("release", *words[1:2], *words[4:], "--cell", "*", "--yes")
    done = user.run(*words).stdout
    assert "part1of4" not in done.replace("resumes", "")  # it had ended
    assert len(samples(user.results / RESULT)) == ROWS
    assert list(user.published()) == [RESULT]


def test_two_hosts_with_folders_of_their_own_share_a_cell(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts of one are brought to the other, through the repository."""
    declare(user, 4, seconds=0.2)
    make_bare(user.folder / "lab.git")
    at = ("--ledger", "git+file:lab.git", "--cpu-slots", "1")
    hosts = []
    for name in ("ana", "bea"):
        monkeypatch.setenv("BENCHFLEET_HOST", name)
        hosts.append(user.start("run", "study.yaml", *at, "--results", name))
    for host in hosts:
        end_of(host)
    results = [
        folder
        for name in ("ana", "bea")
        if (folder := user.folder / name / "study" / RESULT).is_dir()
    ]
    (result,) = results
    assert len(samples(result)) == ROWS
    parts = json.loads((result / "cell.json").read_text())["provenance"]["parts"]
    assert {part["host"] for part in parts} == {"ana", "bea"}


def test_a_killed_host_loses_only_its_part_to_another_host(
    user: User, whole: Whole, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over PostgreSQL. The results of its parts that ended come through the campaign's store."""
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "4")
    store, name = user.folder / "store", f"lab_{uuid.uuid4().hex[:8]}"
    store.mkdir()
    postgres.sql(f"create database {name}")
    url = postgres.url(database=name)
    file = declare(user, 8, seconds=0.4, more=f"results: file://{store}\n")
    hosts = {}
    for host in ("ana", "bea"):
        monkeypatch.setenv("BENCHFLEET_HOST", host)
        words = ("study.yaml", "--ledger", url, "--cpu-slots", "1", "--results", host)
        hosts[host] = user.start("run", *words)
    for host in hosts:
        until(lambda: list((user.folder / host).rglob("samples.jsonl")))  # noqa: B023 - now
    here = user.folder / "ana" / "study"
    until(lambda: stored_parts(here) and stored_parts(here) <= stored_parts(store / "study"))
    until(lambda: recording(here) and stored_parts(here) <= stored_parts(store / "study"))
    hosts["ana"].send_signal(signal.SIGKILL)
    hosts["ana"].wait()
    end_of(hosts["bea"])
    result = user.folder / "bea" / "study" / RESULT
    assert (samples(result), score(result)) == whole
    assert not (here / RESULT).exists()
    assert stored_parts(store / "study") == set()  # they went into the result
    assert samples(store / "study" / RESULT) == whole[0]
    parts = json.loads((result / "cell.json").read_text())["provenance"]["parts"]
    assert {part["host"] for part in parts} == {"ana", "bea"}
    ledger = open_study(load_campaign(file), ledger=url).open_existing_ledger()
    assert ledger is not None
    ends = [event.fingerprint for event in ledger.events(kinds={"finished"})]
    (record,) = ledger.cells()
    ledger.close()
    assert len(ends) == len(set(ends)) == 9  # each part once, and the whole
    assert ends[-1] == record.fingerprint


def stored_parts(results: Path) -> set[str]:
    """The parts with a result in a folder."""
    return {file.parent.name for file in results.glob("m/dense/*+part*/cell.json")}


def recording(results: Path) -> int:
    """How many attempts have recorded a sample, and are not published."""
    sizes = []
    for file in results.glob(".attempts/*/*/samples.jsonl"):
        with contextlib.suppress(FileNotFoundError):
            sizes.append(file.stat().st_size)
    return sum(size > 0 for size in sizes)


def test_a_killed_slot_behind_ssh_loses_only_its_part_to_another(
    user: User, whole: Whole, sshd: Sshd
) -> None:
    declare(user, 4, seconds=0.2)
    machines = user.inventory(*(sshd.host(name, cpu_slots=1) for name in ("lab1", "lab2")))
    run = user.start("run", "study.yaml", "--machines", machines)
    slots: list[psutil.Process] = []

    def started() -> int:
        slots[:] = [one for one in sshd.sessions() if "benchfleet.slot" in words_of(one)]
        return len(slots)

    until(lambda: started() >= 2)
    until(lambda: recording(user.results) == 2)
    slots[0].kill()
    end_of(run)
    result = user.results / RESULT
    assert (samples(result), score(result)) == whole
    assert list(user.published()) == [RESULT]
    parts = json.loads(user.published()[RESULT])["provenance"]["parts"]
    assert {part["host"] for part in parts} == {"lab1", "lab2"}
    used = user.json("status", "study.yaml")["used"]
    assert used["attempts"] == 6  # four parts, one of them twice, and the whole


def words_of(process: psutil.Process) -> str:
    """Its command line; nothing of one that has ended."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def test_a_cancelled_cell_takes_its_parts_along(user: User) -> None:
    declare(user, 3, seconds=0.2)
    run = user.start("run", "study.yaml", "--cpu-slots", "1")
    until(lambda: parts_done(user) == 1)
    user.run("cancel", "study.yaml", "--yes")
    end_of(run, code=1)
    assert user.json("status", "study.yaml", code=None)["cancelled"] == 1
    assert RESULT not in user.published()
    user.run("retry", "study.yaml", "--cancelled", code=None)


def test_what_cannot_be_split_is_refused(user: User) -> None:
    user.write(
        STUDY.replace("mock_benchmark: {{rows: {rows}", "command: {{run: [echo]").format(
            split=2, seconds=0, rows=0, answers=1
        )
    )
    assert "cannot be split" in user.run("plan", "study.yaml", code=2).stderr
