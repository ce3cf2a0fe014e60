"""A repository of earlier tools, taken over and worked to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earlier_repository import EarlierRepository, build
from repositories import git

from .conftest import User

PLAY = """\
import json
import sys

print(json.dumps({"moves": 3, "success_rate": 0.25}))
"""
RUN = ["python", "play.py", "{benchmark}", "{model}", "{config_name}", "{repeat}"]
FILE = "phase_settings.py"


@pytest.fixture
def made(user: User) -> EarlierRepository:
    """Taken over into a ledger on the remote of its repository."""
    made = build(user.folder, levels=2)
    user.run("phase", "import", "repo")
    user.write(PLAY, "play.py")
    set_run(user, f"RUN = {RUN}")
    user.run("phase", "import", "repo", "--settings", FILE, *at(made))
    return made


def at(made: EarlierRepository) -> tuple[str, str]:
    return "--ledger", f"git+file://{made.remote}"


def set_run(user: User, line: str) -> None:
    text = (user.folder / FILE).read_text().partition("\nRUN = ")[0]
    user.write(f"{text}\n{line}\n", FILE)


def test_a_changed_script_is_named_with_the_work_it_would_repeat_and_how_to_keep_it(
    user: User, made: EarlierRepository
) -> None:
    assert user.json("plan", FILE, *at(made))["reruns"] == []
    user.write(f"# a comment\n{PLAY}", "play.py")
    ((first, *_), (reruns,)) = (
        user.run("plan", FILE, *at(made)).stdout.splitlines(),
        user.json("plan", FILE, *at(made))["reruns"],
    )
    assert first.startswith(f"{len(made.done)} finished cells would run again (")
    assert ", because the content of play.py changed. To keep the results, " in first
    assert (len(reruns["cells"]), reruns["seconds"]) == (len(made.done), made.seconds)
    (identity,) = reruns["identities"]
    assert f'`identity: "{identity}"`' in first
    set_run(user, f"RUN = {{'argv': {RUN}, 'identity': {identity!r}}}")
    plan = user.json("plan", FILE, *at(made))
    assert (plan["reruns"], plan["counts"]["reused"]) == ([], len(made.done))
    user.write(f"# another comment\n{PLAY}", "play.py")
    run = user.run("run", FILE, *at(made))
    assert "would run again" not in run.stdout + run.stderr
    assert user.json("status", FILE, *at(made))["success"] == len(made.done) + len(made.todo)
    (summary,) = user.folder.glob("benchmark_results/*/execution_summary.json")
    assert {
        name for name in json.loads(summary.read_text())["devices"] if name.endswith(" ")
    } == set()


def test_of_two_changes_each_result_is_named_with_the_last_identity_it_had(
    user: User, made: EarlierRepository
) -> None:
    user.write(f"# a comment\n{PLAY}", "play.py")
    one = (
        "--only",
        "benchmarks=level_0-easy",
        "--only",
        "models=phi-local",
        "--only",
        "configs=rag",
    )
    user.run("run", FILE, *at(made), *one)
    user.write(f"# another comment\n{PLAY}", "play.py")
    (all_cells,) = user.json("plan", FILE, *at(made))["reruns"]
    (few,) = user.json("plan", FILE, *at(made), *one)["reruns"]
    assert len(few["cells"]) == 2
    assert len(all_cells["cells"]) >= len(made.done)
    (last,) = few["identities"]
    assert len(all_cells["identities"]) == 2
    assert last in all_cells["identities"]


def test_a_run_says_first_which_finished_work_it_repeats(
    user: User, made: EarlierRepository
) -> None:
    set_run(user, f"RUN = {[*RUN, '--fast']}")
    user.write(PLAY, "play.py")
    output = user.run("run", FILE, *at(made), "--only", "repeats=0").stdout
    first = output.splitlines()[0]
    assert "finished cells would run again" in first
    assert "because workload.params.argv[6] changed. To keep the results, undo the change." in first
    assert "identity" not in first


def test_lists_without_the_ledger_leave_out_what_the_repository_has(
    user: User, made: EarlierRepository
) -> None:
    words = ("phase", "generate", FILE, "--repo", "repo", "--results", "other", "--dry-run")
    user.run("run", FILE, *at(made), "--only", "phases=phase1")
    user.run("merge", FILE, *at(made))
    git(made.folder, "pull", "-q", "origin", "main")
    listed = user.json(*words)["lists"]
    assert listed == user.json(*words, *at(made))["lists"]
    assert listed["phase1"] == []
    assert len(listed["phase2"]) > 0


def test_a_merge_hides_nothing_from_another_import(user: User, made: EarlierRepository) -> None:
    before = user.json("phase", "import", "repo", "--dry-run")
    user.run("merge", FILE, *at(made))
    git(made.folder, "pull", "-q", "origin", "main")
    assert (made.folder / "runs").is_dir()
    after = user.json("phase", "import", "repo", "--dry-run")
    for what in ("results", "to do", "could not be read", "claimed and never finished"):
        assert after[what] == before[what]
    summaries = [*Path(made.folder, "runs/phase_settings").glob("*/*.json")]
    assert len(summaries) == len(made.done)
    assert all('"success_rate":' in summary.read_text() for summary in summaries)
    folder = user.folder / "benchmark_results/phase_settings/phi-local/base_line/level_0-easy/r1"
    metrics = json.loads((folder / "metrics.json").read_text())
    score = made.done["level_0-easy", "phi-local", "base_line", 1]  # short: it has a `score`
    assert metrics["summary"]["success_rate"] == metrics["overall_score"] == score
