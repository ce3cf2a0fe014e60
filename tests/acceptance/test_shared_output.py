"""Scripts that all write the same output file, on several slots at once."""

from __future__ import annotations

import json
import signal

from .conftest import User, end_of, until, wait_for_line

CAMPAIGN = """\
campaign: study
cpu_slots: 3
matrix:
  models: [{name: m, adapter: none}]
  benchmarks:
    - command: {name: own, argv: [python, own.py, "{subset}"], output: out.json,
        subsets: [1, 2, 3, 4, 5, 6]}
"""
SCRIPT = """\
import json, pathlib, sys, time
number = int(sys.argv[1])
pathlib.Path("out.json").write_text(json.dumps({"score": number / 10}))
time.sleep(0.3)
while pathlib.Path("wait").exists():
    time.sleep(0.1)
"""


def test_each_cell_gets_what_its_own_script_wrote(user: User) -> None:
    user.write(CAMPAIGN)
    user.write(SCRIPT, "own.py")
    user.run("run", "study.yaml")
    cells = [json.loads(text) for text in user.published().values()]
    scores = {
        cell["cell"]["workload"]["subset"]: cell["metrics"]["overall_score"] for cell in cells
    }
    assert scores == {str(number): number / 10 for number in range(1, 7)}


def test_a_cell_that_waits_for_the_file_stops_when_it_is_asked_to(user: User) -> None:
    user.write(CAMPAIGN)
    user.write(SCRIPT, "own.py")
    user.write("", "wait")
    process = user.start("run", "study.yaml")
    until(lambda: user.json("status", "study.yaml")["running"] == 3)
    process.send_signal(signal.SIGINT)
    wait_for_line(process, "given back")
    end_of(process, code=130)
    (user.folder / "wait").unlink()
    user.run("run", "study.yaml")
    assert user.json("status", "study.yaml")["success"] == 6
