"""Orders of the dashboard reach a run that is at work."""

from __future__ import annotations

from .conftest import User, until
from .served_dashboard import Person, served

HELD = """\
import json, pathlib, sys, time
model, result = sys.argv[1:3]
here = pathlib.Path(__file__).parent
for number in range(6_000):
    if (here / f"end-{model}").exists():
        break
    time.sleep(0.05)
pathlib.Path(result).write_text(json.dumps({"score": 1.0}))
"""
STUDY = """\
campaign: study
phases:
  - name: first
    gate: min(score) >= 2
    matrix:
      models: [{name: m1, adapter: none}]
      benchmarks: &held
        - command: {name: held, argv: [python, held.py, "{model}", "{result}"]}
  - name: second
    matrix:
      models: [{name: m2, adapter: none}]
      benchmarks: *held
"""


def test_a_gate_is_opened_and_the_run_is_stopped(user: User) -> None:
    user.write(STUDY)
    user.write(HELD, "held.py")
    run = user.start("run", "study.yaml", "--cpu-slots", "2")
    _, address, link = served(user)
    person = Person(address, link)

    def running() -> list[str]:
        return [one["path"] for one in person.ask("api/cells?state=running")["cells"]]

    until(lambda: running() == ["m1/dense/held"])
    answer = person.order("override", "key-of-the-gate", phase="first")
    assert answer["answers"] == ["the gate of first is open"]
    until(lambda: len(running()) == 2)  # the second phase began, though the gate says no
    assert person.order("override", "key-of-the-gate", phase="first")["state"] == "repeated"
    (phase, _) = user.json("gate", "show", "study.yaml", code=None)["phases"]
    assert "dashboard" in str(phase)

    answer = person.order("stop", "key-of-the-end")
    (asked,) = answer["answers"]
    assert asked.endswith("asked to end")
    assert answer["by"]
    run.communicate(timeout=240)
    until(lambda: running() == [])  # released, for the next run
    assert {one["state"] for one in person.ask("api/cells")["cells"]} == {"pending"}
