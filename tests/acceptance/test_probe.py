"""What this machine can do, printed for people and for programs."""

from __future__ import annotations

import json
import signal
import socket

import psutil
from jsonschema import Draft202012Validator

from .conftest import MOCK, User, until


def test_probe_writes_a_report_that_readers_of_either_form_can_read(user: User) -> None:
    printed = user.run("probe", "--quick", "--out", "reports").stdout
    host = socket.gethostname()
    file = user.folder / "reports" / f"capability_report_{host}.json"
    assert f"report    reports/{file.name}" in printed
    output = json.loads(file.read_text())
    schema = json.loads(user.run("schema", "--report").stdout)
    Draft202012Validator(schema).validate(output)
    assert output["benchmark"]["memory_bandwidth"] > 0
    assert output["benchmark"]["disk_write"] > 0
    assert output["results"]["eligibility"]["machine_tier"] == max(
        [3] * output["capabilities"]["e2_full"]
        + [2] * output["capabilities"]["e0_e1"]
        + [1] * output["capabilities"]["prerequisites"]
        + [0]
    )


def test_the_campaigns_rules_are_held_against_the_machine_and_kept_in_its_ledger(
    user: User,
) -> None:
    rules = "eligibility:\n  any: cores >= 1\n  huge: ram_total >= 900TB\n"
    user.write(rules + MOCK)
    output = user.json("probe", "study.yaml", "--quick", "--ledger", "sqlite:led.db")
    assert output["results"]["eligibility"]["any"] is True
    assert output["results"]["eligibility"]["why_not"]["huge"].startswith("ram_total is")
    assert output["capabilities"]["model_recommendations"] == ["m1", "m2"]
    assert (user.folder / "led.db").exists()


def test_no_model_is_recommended_that_a_rule_forbids(user: User) -> None:
    user.write("eligibility:\n  huge: {when: ram_total >= 900TB, models: m2}\n" + MOCK)
    output = user.json("probe", "study.yaml", "--quick")
    assert output["capabilities"]["model_recommendations"] == ["m1"]


def test_a_rule_that_can_never_match_is_reported_before_anything_is_measured(user: User) -> None:
    user.write("eligibility: {a: ram_total > 5GB and ram_total < 1GB}\n" + MOCK)
    output = user.run("probe", "study.yaml", code=2).stderr
    assert "line 1" in output
    assert "eligibility.a" in output
    assert list(user.folder.glob("capability*")) == []


def test_an_interrupted_probe_leaves_nothing_behind(user: User) -> None:
    running = user.start("probe")
    until(lambda: bool(psutil.Process(running.pid).children()))  # it measures
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, out + err
    assert "Traceback" not in err
    assert [file.name for file in user.folder.iterdir() if file.name != ".cache"] == []
