"""Failures by stage and kind, with the way out."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.failure import KINDS, Failure
from benchfleet.reports.failures import WAYS_OUT, cause_of, grouped_failures

from .conftest import Study


def test_every_kind_of_failure_has_its_own_way_out() -> None:
    assert set(WAYS_OUT) == set(KINDS)
    assert len(set(WAYS_OUT.values())) == len(KINDS)


def test_failures_are_grouped_by_stage_and_kind_the_largest_first(study: Study) -> None:
    study.failed("a", stage="load", kind="model_not_found", message="no ./model")
    first = study.failed("b", stage="benchmark", kind="oom", message="3 GB asked")
    study.failed("c", stage="benchmark", kind="oom", message="4 GB asked", state="partial")
    study.failed("d", stage="load", kind="oom", message="while loading")
    large, *small = grouped_failures(study.records)
    assert (large.stage, large.kind, large.message) == ("benchmark", "oom", "3 GB asked")
    assert large.cells == ("tiny/b/recall_512/r0", "tiny/c/recall_512/r0")
    assert "batch_size" in large.way_out
    assert large.folder == f".attempts/{first.fingerprint}"
    assert [(g.stage, g.kind) for g in small] == [("load", "model_not_found"), ("load", "oom")]


def test_a_spent_quota_has_a_way_out_of_its_own(study: Study) -> None:
    study.failed("a", stage="benchmark", kind="rate_limited", message="the quota is spent")
    slow = Failure(stage="benchmark", kind="rate_limited", message="slow down", retryable=True)
    study.record(study.cell("b"), "failed", Outcome(state="failed", failure=slow))
    spent, limited = grouped_failures(study.records)
    assert "quota of the account is spent" in spent.way_out
    assert limited.way_out == WAYS_OUT["rate_limited"]


def test_cells_that_will_be_tried_again_are_no_failures_yet(study: Study) -> None:
    study.failed("a", state="pending")
    study.record(study.cell("b"), "skipped")
    assert grouped_failures(study.records) == ()


def test_a_failure_without_a_recorded_reason_says_so(study: Study) -> None:
    study.record(study.cell("a"), "failed")
    (group,) = grouped_failures(study.records)
    assert (group.stage, group.kind, group.message) == (
        "unknown",
        "error",
        "no reason was recorded",
    )


def test_a_kind_of_a_newer_benchfleet_gets_the_general_way_out(study: Study) -> None:
    study.failed("a", kind="cosmic_ray")
    (group,) = grouped_failures(study.records)
    assert group.way_out == WAYS_OUT["error"]


def test_messages_that_differ_in_numbers_and_paths_alone_are_one_group(study: Study) -> None:
    study.failed("a", kind="error", message="IndexError: /data/a.json, line 3 of 7")
    study.failed("b", kind="error", message="IndexError: /data/b/c.json, line 12 of 90\nmore")
    study.failed("c", kind="error", message="KeyError: answer")
    both, one = grouped_failures(study.records)
    assert both.cells == ("tiny/a/recall_512/r0", "tiny/b/recall_512/r0")
    assert one.message == "KeyError: answer"


def test_a_cell_is_grouped_by_its_first_true_reason(study: Study) -> None:
    first = Failure(stage="load", kind="gpu_fault", message="fell off the bus")
    last = Failure(stage="load", kind="slot_lost", message="exit code 1")
    study.record(study.cell("a"), "failed", Outcome(state="failed", failure=last, first=first))
    (group,) = grouped_failures(study.records)
    assert (group.kind, group.message) == ("gpu_fault", "fell off the bus")


def test_where_all_was_answered_the_way_out_is_to_score_again(study: Study) -> None:
    study.failed("a", stage="collect", kind="error", message="ZeroDivisionError", state="partial")
    study.failed("b", stage="benchmark", kind="error", message="ZeroDivisionError")
    groups = {group.stage: group for group in grouped_failures(study.records)}
    assert groups["collect"].scoring
    assert "scored again" in groups["collect"].way_out
    assert not groups["benchmark"].scoring


def test_no_message_says_to_rescore_a_script_without_answers(study: Study) -> None:
    study.failed("a", stage="collect", kind="bad_result", message="no JSON")
    study.failed("b", stage="collect", kind="bad_result", message="no JSON", state="partial")
    bare, answered = grouped_failures(study.records)
    assert (bare.scoring, answered.scoring) == (False, True)
    assert "fix what it writes" in bare.way_out
    assert "answers are kept" not in bare.way_out
    assert answered.way_out == WAYS_OUT["bad_result"]


def test_a_failure_of_the_user_s_own_script_names_new_cells_and_an_identity(study: Study) -> None:
    cell = study.failed("a", stage="benchmark", kind="error", message="KeyError: 'x'")
    script = replace(cell, workload=replace(cell.workload, benchmark="command"))
    record = replace(study.records[0], fingerprint=script.fingerprint)
    (other,) = grouped_failures(study.records, study.cells)
    (own,) = grouped_failures([record], [script])
    assert other.way_out == WAYS_OUT["error"]
    assert "Correct your script" in own.way_out
    assert "which `run` takes" in own.way_out
    assert "'identity'" in own.way_out


def test_a_host_that_takes_no_files_is_not_blamed_on_the_user_s_own_code() -> None:
    cause = cause_of(
        "failed", "provision", "error", "Read-only file system", retryable=True, own_code="script"
    )
    assert not cause.own_code
    assert "hosts check" in cause.way_out


def test_answers_of_the_user_s_own_code_are_not_scored_again(study: Study) -> None:
    cell = study.failed("a", stage="collect", kind="bad_result", message="no", state="partial")
    script = replace(cell, workload=replace(cell.workload, benchmark="python"))
    record = replace(study.records[0], fingerprint=script.fingerprint)
    (group,) = grouped_failures([record], [script])
    assert not group.scoring
    assert "'identity'" in group.way_out


def test_a_failure_of_a_task_of_a_harness_names_the_task_and_no_identity(study: Study) -> None:
    message = "ValueError: Target is multiclass but average='binary'"
    cell = study.failed("a", stage="collect", kind="error", message=message, state="partial")
    params = {"tasks": "q", "include_path": "tasks"}
    work = replace(cell.workload, benchmark="lm_eval", params=params, outside=params)
    task = replace(cell, workload=work)
    record = replace(study.records[0], fingerprint=task.fingerprint)
    (group,) = grouped_failures([record], [task])
    assert "Correct the task's file: its metric" in group.way_out
    assert "'identity'" not in group.way_out
    assert [verb for verb, _ in group.verbs] == ["retry", "run"]
