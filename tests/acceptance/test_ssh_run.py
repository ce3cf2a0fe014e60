"""A campaign on hosts that misbehave: each a machine of its own, reached over SSH."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from netns import Machine, Machines, machines

from .conftest import User, samples_kept, until
from .lan_runs import (
    WORDS,
    Run,
    complete,
    connections_of,
    failures,
    masters,
    outcomes,
    slots_on,
    sockets_of,
    write,
)


@pytest.fixture
def lan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Makes hosts in namespaces of their own, and takes them away."""
    with machines(tmp_path_factory.mktemp) as made:
        yield made


@pytest.fixture
def start(user: User) -> Iterator[Callable[..., Run]]:
    """Starts runs, of which none outlives the test."""
    with contextlib.ExitStack() as ends:

        def started(*words: str) -> Run:
            run = Run(user, *words)
            ends.callback(run.kill)
            return run

        yield started


def test_a_fleet_that_loses_a_host_for_good_and_one_for_a_while_runs_every_cell_once(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    cut, killed = lan.add("lab1"), lan.add("lab2")
    ahead = lan.add("lab3", clock=3600)
    write(user, cut.host(), killed.host(), ahead.host(), repeats=36, seconds=3)
    run = start()
    until(lambda: len(run.of("cell_started")) >= 6 and all(map(slots_on, (cut, killed, ahead))))
    until(lambda: sum(one["kind"] == "cell_progress" for one in list(run.events)) > 60)
    before = slots_on(cut)
    assert before
    cut.cut()
    killed.kill()
    until(lambda: run.of("host_lost", host="lab2"))
    until(lambda: run.of("host_lost", host="lab1"))
    assert set(before) <= set(slots_on(cut))
    cut.mend()
    until(lambda: len(run.of("host_ready", host="lab1")) == 2)
    assert not set(before) & set(slots_on(cut))
    run.end(0)

    provenance = complete(user, 36)
    assert {made["host"] for made in provenance.values()} >= {"lab1", "lab3"}
    assert sum(made["resumed_samples"] > 0 for made in provenance.values()) >= 2
    assert run.hosts("lab1") == ["host_ready", "host_lost", "host_ready"]
    assert run.hosts("lab2")[:2] == ["host_ready", "host_lost"]
    assert run.hosts("lab3") == ["host_ready"]
    lost = run.of("cell_failed")
    assert lost
    assert all("host_lost" in one["message"] and one["data"]["retry_in"] == 0 for one in lost)
    assert len(run.of("slot_lost")) == 4
    assert {end["failure"]["kind"] for end in failures(user)} == {"host_lost"}
    assert not any(end["charged"] for end in failures(user))
    back = run.events.index(run.of("host_ready", host="lab1")[1])
    opened = [one for one in run.events[back:] if one["kind"] == "slot_opening"]
    assert any("lab1" in one["data"]["devices"] for one in opened)
    assert not slots_on(cut)
    assert not slots_on(ahead)
    assert connections_of(user) == []


def test_hosts_that_are_away_at_the_start_hold_up_no_other_and_are_used_when_they_come(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    here, off, gone = lan.add("lab1"), lan.add("lab2"), lan.add("lab3")
    off.kill()
    gone.cut()
    write(user, here.host(cpu_slots=1), off.host(), gone.host(), repeats=20)
    run = start()
    until(lambda: run.of("cell_done") and run.of("host_lost", host="lab2"))
    off.start()
    run.end(0)
    assert {made["host"] for made in complete(user, 20).values()} == {"lab1", "lab2"}
    refused = run.of("host_lost", host="lab2")[0]
    assert "Connection refused" in refused["message"]
    assert refused["data"]["hopeless"] is False
    assert run.hosts("lab2")[-1] == "host_ready"
    assert "host_ready" not in run.hosts("lab3")
    assert connections_of(user) == []


def test_a_fleet_of_which_nothing_can_be_used_ends_with_a_reason_for_each(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    machine = lan.add("lab1")
    stranger = user.folder / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", stranger], check=True)
    write(
        user,
        machine.host(name="locked", identity=str(stranger)),
        machine.host(name="bare", python="/no/such/python"),
        machine.host(name="no-gpu", cpu_slots=None, gpus=(7,)),
        repeats=2,
    )
    output = start().end(1)
    assert "ended early: no machine can be used" in output
    for reason in ("locked: ", "Permission denied", "bare: ", "/no/such/python", "it has no GPU 7"):
        assert reason in output
    assert "fix it, or remove 'python' and run `benchfleet hosts bootstrap`" in output
    assert "2 cells: 2 pending\nended early: " in output  # neither tables nor a reason twice
    status = user.json("status", "study.yaml")
    assert (status["pending"], status["total"]) == (2, 2)
    assert outcomes(user) == []
    plain = user.run(*WORDS[:-1], code=1).stdout
    assert plain.count("! host ") == 3
    assert "it is tried again" not in plain


def test_ctrl_c_ends_the_slots_everywhere_and_the_next_run_goes_on(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    fleet = [lan.add("lab1"), lan.add("lab2")]
    write(user, *(machine.host() for machine in fleet), repeats=4, seconds=3)
    run = start()
    until(lambda: sum(one["kind"] == "cell_progress" for one in list(run.events)) > 40)
    run.process.send_signal(signal.SIGINT)
    output = run.end(130)
    assert (
        "nothing is lost; continue with: benchfleet run study.yaml --machines machines.json"
        in output
    )
    assert [slots_on(machine) for machine in fleet] == [{}, {}]
    assert connections_of(user) == []
    assert user.json("status", "study.yaml")["running"] == 0
    kept = samples_kept(user)
    assert kept > 10
    start("run", "study.yaml").end(0)  # the samples serve whatever machine goes on
    provenance = complete(user, 4)
    assert sum(made["resumed_samples"] for made in provenance.values()) >= kept


def test_a_runner_that_is_killed_leaves_nothing_there_and_the_next_one_completes(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    fleet = [lan.add("lab1"), lan.add("lab2")]
    write(user, *(machine.host() for machine in fleet), repeats=4, seconds=3)
    run = start()
    until(lambda: sum(one["kind"] == "cell_progress" for one in list(run.events)) > 40)
    assert all(map(slots_on, fleet))
    folder = sockets_of(user)
    run.process.kill()
    until(lambda: not any(map(slots_on, fleet)))
    start().end(0)  # without the minute of its leases
    complete(user, 4)
    until(lambda: not masters(folder))  # a connection that nobody uses ends by itself


def test_only_the_hosts_that_are_chosen_are_reached_and_no_connection_is_left(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    wanted, other = lan.add("lab1"), lan.add("lab2")
    labelled = wanted.host(labels=frozenset({"fast"}))
    write(user, labelled, other.host(), repeats=2, seconds=4)
    run = start(*WORDS, "--hosts", "fast")
    until(lambda: run.of("cell_started"))
    folder = sockets_of(user)
    assert masters(folder)
    run.end(0)
    assert masters(folder) == []
    assert connections_of(user) == []
    assert not folder.exists()
    assert {made["host"] for made in complete(user, 2).values()} == {"lab1"}
    assert "Accepted publickey" not in other.log()
    assert run.hosts("lab2") == []


def test_a_host_that_comes_back_with_another_key_is_refused_and_the_others_go_on(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    doubtful, good = lan.add("lab1"), lan.add("lab2")
    write(user, doubtful.host(), good.host(), repeats=16)
    run = start()
    until(lambda: all(map(slots_on, (doubtful, good))) and len(run.of("cell_started")) >= 4)
    doubtful.kill()
    doubtful.new_host_key()
    doubtful.start()
    run.end(0)
    complete(user, 16)
    last = run.of("host_lost", host="lab1")[-1]
    assert last["data"]["hopeless"] is True
    assert last["message"].startswith("its host key is not the one that was seen before")
    assert str(user.folder / ".benchfleet" / "known_hosts") in last["message"]
    assert doubtful.processes() == {}
    assert run.of("host_lost", host="lab2") == []


def wrapper(machine: Machine, name: str, *lines: str) -> str:
    """A Python for a host that does something else before it is the one that it wraps."""
    place = machine.folder / name
    place.write_text("\n".join(["#!/bin/sh", *lines, f'exec {machine.host().python} "$@"', ""]))
    place.chmod(0o755)
    return str(place)


def test_a_host_whose_python_talks_before_its_slot_does_is_reported(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    machine = lan.add("lab1")
    noisy = wrapper(machine, "noisy", "echo Welcome to lab1, have a nice day")
    write(user, machine.host(python=noisy, cpu_slots=1), repeats=1)
    output = start().end(1)
    assert "slots do not start" in output
    assert "Welcome to lab1" in output
    assert "a login script there must print nothing" in output
    assert user.json("status", "study.yaml")["pending"] == 1


def test_a_slot_elsewhere_cannot_write_outside_of_its_attempt(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    machine = lan.add("lab1")
    shadow = machine.folder / "shadow"
    shadow.mkdir()
    (shadow / "sitecustomize.py").write_text(
        "from benchfleet.slot.channel import Channel\n"
        "send = Channel.send\n"
        "def lying(self, type, attached=(), **fields):\n"
        "    if type == 'done':\n"
        "        send(self, 'file', (b'mine',), attempt=fields['attempt'], name='../../../../x')\n"
        "    send(self, type, attached, **fields)\n"
        "Channel.send = lying\n"
    )
    python = wrapper(machine, "lying", f"export PYTHONPATH={shadow}")
    write(user, machine.host(python=python), repeats=1)
    run = start()
    run.end(1)
    (failed,) = run.of("cell_failed")
    assert "bad_result" in failed["message"]
    assert "../../../../x" in failed["message"]
    assert not list(user.folder.rglob("x"))
    assert not (user.folder.parent / "x").exists()


def test_a_slot_on_a_host_is_added_and_drained_from_here(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    lab1 = lan.add("lab1")
    write(user, lab1.host(cpu_slots=1), repeats=40, seconds=3)
    run = start()
    until(lambda: run.of("cell_started"))
    (only,) = user.json("slots")["runners"][0]["slots"]
    assert only["devices"] == "lab1/cpu:0"
    user.run("slots", "add", "lab1/cpu:1")
    until(lambda: len({one["slot"] for one in run.of("cell_started")}) == 2)
    output = user.run("slots", "drain", "lab1/cpu:0", "lab1/cpu:1", "--now", "--wait").stdout
    assert output.endswith("is free\n")
    assert not slots_on(lab1)
    assert run.of("cell_released")
    refused = user.run("slots", "drain", "lab1/cpu:9", code=1).stderr
    assert "no lab1/cpu:9 in this run; there are lab1/cpu:0, lab1/cpu:1" in refused
    run.process.send_signal(signal.SIGINT)
    run.end(130)


def test_a_judge_on_a_host_reads_the_answers_that_lie_here(
    user: User, lan: Machines, start: Callable[..., Run]
) -> None:
    write(user, lan.add("lab1").host(), repeats=1)
    judge = '{name: judge, adapter: mock, model_kwargs: {answer: "VERDICT: 4"}}'
    models = f"[{{name: m, adapter: mock}}, {judge}]"
    judged = "[mock_benchmark: {rows: 2, judge: {model: judge, rubric: r.md}}]"
    user.write("Grade {response}", "r.md")
    matrix = f"{{models: {models}, benchmarks: {judged}, exclude: [{{models: judge}}]}}"
    user.write(f"campaign: study\nmatrix: {matrix}\n")
    start().end(0)
    made = {path: json.loads(cell)["provenance"] for path, cell in user.published().items()}
    assert {one["host"] for one in made.values()} == {"lab1"}
    folder = user.results / "judge" / "dense" / "judge_mock_benchmark_m_dense"
    assert json.loads((folder / "metrics.json").read_text())["overall_score"] == 4.0
