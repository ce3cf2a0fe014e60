"""Caring for a campaign: memory that runs out, what failed, cancelling and scoring again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from sshd import Sshd

from .conftest import MOCK, User, samples_kept, until

STUDY = """\
campaign: study
defaults: {{batch_size: {batch}, limits: {{tries: 2}}}}
matrix:
  models:
    - {{name: m1, adapter: mock}}
    - {{name: m2, adapter: mock}}
  configs: {{dense: null}}
  benchmarks:
    - _hostile: {{{hostile}}}
"""


def write(user: User, hostile: str, *, batch: int = 1) -> None:
    user.write(STUDY.format(hostile=hostile, batch=batch))


def folders(user: User) -> list[Path]:
    """Every attempt's folder that was not published."""
    return sorted((user.results / ".attempts").glob("*/*"))


def wait_for(user: User, **wanted: int) -> None:
    """Look at the campaign until its counts are these."""
    until(lambda: wanted.items() <= user.json("status", "study.yaml").items())


# Memory


def test_a_batch_that_does_not_fit_is_halved_until_it_does(user: User) -> None:
    write(user, "act: memory, size: 2", batch=9)
    done = user.run("run", "study.yaml", "--only", "models=m1", "--cpu-slots", "1")
    assert "again with batch size 4" in done.stdout
    assert "again with batch size 2" in done.stdout
    (sealed,) = user.published().values()
    content = json.loads(sealed)
    assert content["provenance"]["effective_batch_size"] == 2
    assert content["cell"]["workload"]["batch_size"] == 9
    assert json.loads(sealed)["provenance"]["attempt"] == 3


def test_cells_that_do_not_fit_beside_each_other_run_one_after_the_other(user: User) -> None:
    shared = user.folder / "shared"
    shared.mkdir()
    write(user, f"act: oversubscribe, size: 1500, at: 0, shared: {shared}")
    done = user.run("run", "study.yaml", "--cpu-slots", "2")
    assert "again alone" in done.stdout
    assert len(user.published()) == 2


# Failures


def test_failures_are_shown_grouped_with_every_attempt_and_the_way_out(user: User) -> None:
    write(user, "act: memory, at: 1", batch=2)
    user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    output = user.failures()
    assert "2 cells without a result, 1 kind of failure" in output
    assert "benchmark: oom · 2 cells" in output
    assert "failed 3 times (3 oom); at last with batch size 1" in output
    assert "then with batch size 1" in output
    assert "Set a smaller batch_size" in output
    assert "| MemoryError" in output
    again = "benchfleet run study.yaml --cpu-slots 1"  # with the devices of the last run
    assert f"benchfleet retry study.yaml --kind oom && {again}\n" in output
    (group,) = json.loads(user.failures("--only", "models=m2", "--json"))["groups"]
    assert group["cells"] == ["m2/dense/_hostile"]
    assert [one["failure"] for one in group["attempts"]] == ["benchmark: oom (MemoryError)"] * 3
    assert user.json("failures", "study.yaml", "--kind", "timeout")["groups"] == []
    assert (
        "nothing of this choice failed"
        in user.run("failures", "study.yaml", "--kind", "timeout").stdout
    )


def test_the_command_after_failures_on_hosts_names_the_inventory(user: User, sshd: Sshd) -> None:
    write(user, "act: memory, at: 1")
    name = user.inventory(sshd.host("lab1", cpu_slots=1))
    user.run("run", "study.yaml", "--machines", name, code=1)
    again = f"benchfleet run study.yaml --machines {name}\n"
    assert f"benchfleet retry study.yaml --kind oom && {again}" in user.failures()
    assert user.run("retry", "study.yaml").stdout.endswith(f"again with: {again}")


@pytest.fixture(scope="module")
def all_failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user whose every cell failed, to be copied."""
    user = User(tmp_path_factory.mktemp("failed"))
    write(user, "act: raise")
    user.run("run", "study.yaml", code=1)
    return user.folder


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--kind", "error"), 2),
        (("--kind", "oom", "--kind", "error"), 2),
        (("--kind", "oom"), 0),
        (("--cell", "m1/*"), 1),
        (("--cell", "m1/*", "--cell", "m2/*"), 2),
        (("--exclude", "models=m1"), 1),
        (("--only", "models=m1", "--cell", "m2/*"), 0),
    ],
)
def test_retry_takes_what_its_options_name(
    user: User, all_failed: Path, words: tuple[str, ...], count: int
) -> None:
    shutil.copytree(all_failed, user.folder, dirs_exist_ok=True)
    assert len(user.json("retry", "study.yaml", *words)["pending_again"]) == count


# Cancelling


def test_cells_are_cancelled_with_what_they_have_and_come_back_with_it(user: User) -> None:
    gate = user.write("", "gate")
    write(user, f"samples: 16, seconds: 0.25, act: wait, at: 2, shared: {gate}")
    running = user.start("run", "study.yaml", "--cpu-slots", "1")
    try:
        wait_for(user, running=1)
        until(lambda: samples_kept(user) >= 2)
        output = user.run("cancel", "study.yaml", "--yes").stdout
        assert "m1/dense/_hostile  its runner stops it" in output
        assert "bring them back with: benchfleet retry study.yaml" in output
        gate.unlink()
        assert running.wait(timeout=60) == 1
        shown = running.stdout.read() if running.stdout else ""
        assert re.search(r"cancelled; \d+ samples are kept", shown), shown
    finally:
        running.kill()
        running.communicate()
    assert user.json("status", "study.yaml")["cancelled"] == 2
    assert "2 cells are cancelled" in user.run("status", "study.yaml").stdout
    assert len(user.json("retry", "study.yaml")["pending_again"]) == 2
    user.run("run", "study.yaml")
    sealed = json.loads(user.published()["m1/dense/_hostile"])
    assert sealed["provenance"]["resumed_samples"] >= 2


def test_cells_that_were_never_run_can_be_cancelled(user: User) -> None:
    write(user, "samples: 1")
    found = user.json("cancel", "study.yaml", "--only", "models=m1", "--yes")
    assert found["cancelled"] == ["m1/dense/_hostile"]
    user.run("run", "study.yaml", code=1)
    counts = user.json("status", "study.yaml")
    assert (counts["success"], counts["cancelled"]) == (1, 1)
    assert "nothing to cancel" in user.run("cancel", "study.yaml", "--yes").stdout


def test_cancelling_is_not_done_unasked(user: User) -> None:
    write(user, "samples: 1")
    refused = user.run("cancel", "study.yaml", code=2)
    assert "would cancel 2 cells" in refused.stderr
    assert "--yes" in refused.stderr
    assert user.json("status", "study.yaml")["cancelled"] == 0


# Outputs before scores


def test_a_scorer_that_raises_loses_no_answer_and_is_run_again_without_the_model(
    user: User,
) -> None:
    once = user.folder / "once"
    write(user, f"act: score, once: {once}, samples: 4")
    done = user.run("run", "study.yaml", "--only", "models=m1", code=1)
    assert "collect: error" in done.stdout
    (folder,) = folders(user)
    assert len((folder / "samples.jsonl").read_text().splitlines()) == 4
    assert "benchfleet rescore study.yaml" in user.failures()
    found = user.json("rescore", "study.yaml")
    assert [(one["cell"], one["score"]) for one in found["cells"]] == [("m1/dense/_hostile", 1.0)]
    sealed = json.loads(user.published()["m1/dense/_hostile"])
    assert sealed["provenance"]["rescored"] is True
    assert sealed["provenance"]["resumed_samples"] == 4
    assert sealed["provenance"]["model"] == {}
    assert user.json("status", "study.yaml")["success"] == 1
    assert "nothing to score again" in user.run("rescore", "study.yaml").stdout


def test_a_score_that_fails_again_changes_nothing(user: User) -> None:
    write(user, "act: score, samples: 2")
    user.run("run", "study.yaml", "--only", "models=m1", code=1)
    before = user.failures()
    output = user.run("rescore", "study.yaml", code=1).stdout
    assert "it cannot be scored, on purpose" in output
    assert "its answers are kept" in output
    assert user.failures() == before


def test_what_is_published_is_compared_and_stays(user: User) -> None:
    user.write(STUDY.format(hostile="", batch=1).replace("_hostile:", "mock_benchmark:"))
    user.run("run", "study.yaml")
    before = user.published()
    found = user.json("rescore", "study.yaml", "--all")["cells"]
    assert [(one["differs"], one["failure"]) for one in found] == [(False, "")] * 2
    assert user.published() == before
    assert folders(user) == []
    file = user.results / "m1/dense/mock_benchmark/samples.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    changed = [{**record, "predicted_answer": "Ada Brandt"} for record in records]
    file.write_text("".join(json.dumps(record) + "\n" for record in changed))
    output = user.run("rescore", "study.yaml", "--all", "--only", "models=m1", code=1).stdout
    assert "≠ m1/dense/mock_benchmark" in output
    assert "what is published stays" in output
    assert user.published() == before


def test_a_published_cell_that_cannot_be_scored_apart_stands_and_is_not_to_be_tried_again(
    user: User,
) -> None:
    command = """command: {name: own, argv: [echo, '{"overall_score": 0.5}']}"""
    user.write(MOCK.replace("mock_benchmark", f"{{{command}}}, mock_benchmark"))
    user.run("run", "study.yaml")
    before = user.published()
    output = user.run("rescore", "study.yaml", "--all", code=1).stdout
    assert "– m1/dense/own  not scored again: collect: bad_result" in output
    assert "own asks and scores in one); what is published stays" in output
    assert "= m1/dense/mock_benchmark" in output
    assert "run the cell again" not in output
    assert "retry" not in output
    assert "look at it with: benchfleet report study.yaml" in output
    assert user.published() == before


def test_what_a_verb_says_to_run_next_names_no_more_than_it_was_asked_about(user: User) -> None:
    write(user, "act: raise")
    user.run("run", "study.yaml", "--only", "models=m1", code=1)
    output = user.run("cancel", "study.yaml", "--cell", "m2/*", "--yes").stdout
    assert "benchfleet retry study.yaml --cell 'm2/*' --cancelled" in output
    shown = user.run("status", "study.yaml").stdout
    assert "try them again: benchfleet retry study.yaml --failed" in shown
    assert "bring it back: benchfleet retry study.yaml --cancelled" in shown
    assert "retry study.yaml --cell 'm1/*' --kind error" in user.failures("--cell", "m1/*")
    again = user.json("retry", "study.yaml", "--cancelled")["pending_again"]
    assert again == ["m2/dense/_hostile"]
    again = user.json("retry", "study.yaml", "--failed")["pending_again"]
    assert again == ["m1/dense/_hostile"]
