"""Races through the command line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.main import main
from benchfleet.errors import ResultsError
from benchfleet.race import Racer
from benchfleet.study import open_study

from .conftest import User, end_of

# Answers 40 questions, of which a config gets its share right. A later repeat of the worst one
# waits until it is stopped, so that no speed of the machine decides what this test sees.
SCRIPT = """\
import json, random, sys, time
config, repeat, result = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if config == "bad" and repeat > {free}:
    time.sleep(240)
rng = random.Random(f"{{config}} {{repeat}}")
share = {{"good": 0.95, "close": 0.9, "bad": 0.2}}[config]
samples = [{{"id": f"{{repeat}}-{{n}}", "score": float(rng.random() < share)}} for n in range(40)]
json.dump({{"samples": samples}}, open(result, "w"))
"""
STUDY = """\
campaign: study
{race}
defaults: {{repeats: 4}}
matrix:
  models: [{{name: m1, adapter: none}}]
  configs: {{close: null, good: {{settings: {{a: 1}}}}, bad: {{settings: {{a: 2}}}}}}
  benchmarks:
    - command:
        {{name: mine, argv: [python, mine.py, "{{config_name}}", "{{repeat}}", "{{result}}"]}}
"""
BAD = {"bad/mine/r1", "bad/mine/r2", "bad/mine/r3"}


def write(user: User, race: str, *, free: int = 0) -> None:
    """The campaign; repeats of the worst config up to `free` run to their end."""
    user.write(SCRIPT.format(free=free), "mine.py")
    user.write(STUDY.format(race=race))


def states(user: User) -> dict[str, str]:
    """The state of each cell in the ledger, by path without the model."""
    study = open_study(load_campaign(user.folder / "study.yaml"))
    return {one.path.removeprefix("m1/"): one.state for one in study.records(study.cells())}


def last_event(user: User) -> int:
    study = open_study(load_campaign(user.folder / "study.yaml"))
    return study.query(lambda ledger: ledger.last_event(), default=0)


def standings(race: dict[str, Any]) -> dict[str, str]:
    (group,) = race["groups"]
    return {one["config"]: one["verdict"] for one in group["standings"]}


@pytest.fixture(scope="module")
def raced_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a user whose campaign with a race has run, and what that printed."""
    user = User(tmp_path_factory.mktemp("raced"))
    write(user, "race: {confidence: 90%}")
    return user.folder, user.run("run", "study.yaml", "--cpu-slots", "2").stdout


@pytest.fixture
def raced(user: User, raced_run: tuple[Path, str]) -> User:
    shutil.copytree(raced_run[0], user.folder, dirs_exist_ok=True)
    return user


def test_the_later_repeats_of_a_loser_do_not_run(raced: User) -> None:
    by_state = states(raced)
    assert {path for path, state in by_state.items() if state == "cancelled"} == BAD
    assert {path.removeprefix("m1/") for path in raced.published()} == {*by_state} - BAD
    assert standings(raced.json("race", "study.yaml")) == {
        "close": "in",
        "good": "leads",
        "bad": "stopped",
    }


def test_every_report_says_what_was_stopped_and_saved(
    raced: User, raced_run: tuple[Path, str]
) -> None:
    note = r"Race: bad stopped on mine after 40 samples: [\d.]+ points lower than (good|close) "
    note += r"\(anytime 90 % interval −[\d.]+ to −[\d.]+\); 3 of 4 repeats left out"

    printed = " ".join(raced_run[1].split())
    assert re.search(note, printed)
    assert "12 cells: 9 success, 3 skipped" in printed
    assert "cancelled; bring" not in printed
    assert re.search(note, (raced.results / "report.md").read_text())
    raced.run("report", "study.yaml", "--format", "html", "--output", "report.html")
    assert re.search(note, (raced.folder / "report.html").read_text())
    (saving,) = raced.json("report", "study.yaml")["race"]
    assert (saving["config"], saving["saved"], saving["of"]) == ("bad", 3, 4)
    assert (saving["samples"], saving["confidence"]) == (40, 0.9)
    assert saving["interval"][1] < 0
    summary = json.loads((raced.results / "execution_summary.json").read_text())
    assert summary["counts"]["skipped"] == 3
    status = raced.run("status", "study.yaml").stdout
    assert "12 cells · 9 success · 3 skipped" in status
    assert "bad stopped on mine after 40 samples" in status
    plan = raced.run("plan", "study.yaml").stdout
    assert "3 skipped" in plan
    assert "cancelled" not in plan
    assert "a race stopped 3 cells" in raced.run("verify", "study.yaml").stdout
    sides = ("--in", "study.yaml", "configs=good", "configs=bad")
    compared = " ".join(raced.run("compare", *sides).stdout.split())
    assert re.search(note, compared)
    assert "p-values do not allow for the race's looks" in compared
    assert len(raced.json("compare", *sides)["notes"]) == 2


def test_the_dashboard_shows_the_race_and_does_not_wait_for_what_it_stopped(raced: User) -> None:
    raced.run("dashboard", "study.yaml", "--export", "site")
    text = re.sub(r"<[^>]+>|\s+", " ", (raced.folder / "site/race.html").read_text())
    words = " ".join(text.split())
    assert re.search(
        r"m1 / mine .* bad 1 of 4 40 −0\.\d+ −0\.\d+ to −0\.\d+ (good|close) stopped 3 cells", words
    )
    assert "with 90 % confidence at every look, over 6 comparisons" in words
    compare = (raced.folder / "site/compare.html").read_text()
    assert 'href="race.html"' in compare
    assert "Not yet" not in compare


def test_a_second_run_and_decision_do_nothing_more(raced: User) -> None:
    before = raced.published()
    assert "nothing was run" in raced.run("run", "study.yaml").stdout
    (raced.results / "execution_summary.json").unlink()  # so that a whole run looks
    again = raced.run("run", "study.yaml").stdout
    assert "study: 12 cells · 9 done (9 reused) · 3 skipped" in again
    assert "nothing was run" not in again
    assert raced.published() == before
    assert "nothing to stop" in raced.run("race", "study.yaml").stdout
    assert list(states(raced).values()).count("cancelled") == 3


def test_an_export_calls_what_a_race_stopped_skipped(raced: User) -> None:
    done = raced.run("export", "study.yaml", "--to", "lm_eval")
    assert "not exported: 3 skipped" in done.stderr
    assert "cancelled" not in done.stderr


def test_a_plain_retry_leaves_a_race_alone(raced: User) -> None:
    output = raced.run("retry", "study.yaml").stdout
    assert "nothing to retry" in output
    assert "3 cells stay stopped by the race; add --raced to run them" in output
    assert "--raced" not in raced.run("retry", "study.yaml", "--failed").stdout
    assert "nothing to retry" in raced.run("retry", "study.yaml", "--cancelled").stdout


def test_hosts_on_one_ledger_share_a_race(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has one slot; one of them is kept by a loser's repeat until either of them stops it."""
    write(user, "race: {confidence: 90%}")
    workers = []
    for host in ("lab1", "lab2"):
        monkeypatch.setenv("BENCHFLEET_HOST", host)
        workers.append(user.start("work", "study.yaml", "--cpu-slots", "1"))
    for worker in workers:
        end_of(worker)
    by_state = states(user)
    assert {path for path, state in by_state.items() if state == "cancelled"} == BAD
    assert {path.removeprefix("m1/") for path in user.published()} == {*by_state} - BAD
    assert standings(user.json("race", "study.yaml"))["bad"] == "stopped"
    user.run("verify", "study.yaml")


def test_a_decision_by_hand(user: User) -> None:
    write(user, "", free=9)
    user.run("run", "study.yaml", "--only", "repeats=0")
    before = last_event(user)
    shown = user.run("race", "study.yaml", "--dry-run").stdout
    assert "would stop" in shown
    assert "this would cancel 3 cells: benchfleet race study.yaml" in shown
    assert standings(user.json("race", "study.yaml", "--dry-run"))["bad"] == "stops"
    assert last_event(user) == before
    assert "3 cells cancelled; bring them back" in user.run("race", "study.yaml").stdout
    user.run("run", "study.yaml")
    assert {path.removeprefix("m1/") for path in user.published()} == {*states(user)} - BAD
    user.run("retry", "study.yaml", "--raced", "--only", "repeats=1")
    brought_back = user.run("race", "study.yaml").stdout
    assert "brought back; not stopped again" in brought_back
    assert "nothing to stop" in brought_back
    user.run("run", "study.yaml")
    assert states(user)["bad/mine/r1"] == "success"
    assert states(user)["bad/mine/r2"] == "cancelled"


def test_without_a_race_or_a_ledger_nothing_is_stopped(user: User) -> None:
    write(user, "", free=9)
    assert "nothing has run there" in user.run("race", "study.yaml").stderr
    assert not user.results.exists()
    user.run("run", "study.yaml")
    assert set(states(user).values()) == {"success"}
    assert standings(user.json("race", "study.yaml"))["bad"] == "worse"


def test_a_decision_that_fails_is_a_warning(
    user: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise ResultsError("the results cannot be read")

    monkeypatch.setattr(Racer, "decide", fails)
    monkeypatch.chdir(user.folder)
    write(user, "race: true", free=9)
    assert main(["run", "study.yaml", "--cpu-slots", "2"]) == 0
    assert capsys.readouterr().out.count("race: nothing was decided: the results cannot be") == 1
    assert set(states(user).values()) == {"success"}
