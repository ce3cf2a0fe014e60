"""``benchfleet logs`` as a person has it."""

from __future__ import annotations

from .conftest import User
from .test_care import STUDY, wait_for


def test_each_attempt_s_log_is_shown_and_a_wrong_name_tells_the_near_ones(user: User) -> None:
    once = user.folder / "once"
    user.write(STUDY.format(batch=1, hostile=f"act: raise, once: {once}"))
    cell = "m1/dense/_hostile"
    assert "has not started" in user.run("logs", "study.yaml", cell, code=2).stderr
    user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    user.run("retry", "study.yaml")
    user.run("run", "study.yaml")
    shown, output = user.start("logs", "study.yaml", cell, "--attempt", "1").communicate(timeout=60)
    assert "RuntimeError: it went wrong on purpose" in shown
    assert f"{cell}  attempt 1 of 2, partial on" in output
    last = user.start("logs", "study.yaml", cell, "--attempt", "1", "--lines", "1")
    assert len(last.communicate(timeout=60)[0].splitlines()) == 1
    found = user.json("logs", "study.yaml", cell)
    assert [one["how"] for one in found["attempts"]] == ["partial", "success"]
    assert (found["attempt"], found["log"]) == (2, str(user.results / cell / "log.txt"))
    for words, message in (
        (("m1/dens/_hostile",), f"did you mean {cell}"),
        ((cell, "--attempt", "3"), "has no attempt 3; it has 1, 2"),
        ((cell, "--follow", "--json"), "--follow and --json exclude each other"),
    ):
        assert message in user.run("logs", "study.yaml", *words, code=2).stderr


SAY = """\
printf 'first\\n\\033[2Jsecond\\n'
while [ -e $1 ]; do sleep 0.1; done
printf 'third\\n'
echo '{"x": 1}' > metrics.json
"""


def test_a_log_is_followed_until_its_cell_has_ended_and_cannot_steer_the_terminal(
    user: User,
) -> None:
    gate = user.write("", "gate")
    printing = f"benchmarks:\n    - command: {{name: mine, argv: [sh, say.sh, {gate}], metric: x}}"
    user.write(
        STUDY.format(batch=1, hostile="").replace("benchmarks:\n    - _hostile: {}", printing)
    )
    user.write(SAY, "say.sh")
    running = user.start("run", "study.yaml", "--cpu-slots", "1", "--only", "models=m1")
    try:
        wait_for(user, running=1)
        follower = user.start("logs", "study.yaml", "m1/dense/mine", "--follow")
        assert follower.stdout is not None
        assert next(line for line in follower.stdout if "first" in line) == "first\n"
        assert follower.stdout.readline() == "second\n"
        gate.unlink()
        shown, output = follower.communicate(timeout=60)
        assert ("third\n" in shown, follower.returncode) == (True, 0)
        assert "m1/dense/mine  attempt 1 of 1, running" in output
    finally:
        running.kill()
        running.communicate()
