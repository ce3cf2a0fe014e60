"""A campaign whose ledger is a PostgreSQL database, as a user has it."""

from __future__ import annotations

import json
import re
import signal
import uuid

import pytest

import campaign_s1
from benchfleet.ledger.postgres.grants import reader_grants
from benchfleet.machines.probe import report
from capabilities import LAPTOP, reported
from postgres import Postgres

from .conftest import MOCK, User, samples_kept, until

PASSWORD = "hush-hush"  # noqa: S105 - of a role of the test's own server


@pytest.fixture
def url(postgres: Postgres) -> str:
    """A database of the test's own, reached with a password."""
    name = f"lab_{uuid.uuid4().hex[:8]}"
    postgres.sql(
        "do $$ begin if to_regrole('secretive') is null then"
        f" create role secretive login password '{PASSWORD}'; end if; end $$"
    )
    postgres.sql(f"create database {name}")
    postgres.sql(f"grant create on database {name} to secretive")
    return postgres.url(user=f"secretive:{PASSWORD}", database=name)


def test_every_verb_works_through_it_and_never_shows_the_password(user: User, url: str) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--ledger", url)
    assert user.json("status", *at)["pending"] == 2
    printed = [user.run("run", *at, "--cpu-slots", "1").stdout]
    published = user.published()
    assert len(published) == 2
    printed += [
        user.run(verb, *at).stdout for verb in ("run", "status", "report", "failures", "plan")
    ]
    assert user.json("cancel", *at, "--yes")["cancelled"] == []
    printed.append(user.run("retry", *at).stdout)
    assert user.json("ledger", "rebuild", *at)["known"] == 2
    assert user.json("status", *at)["success"] == 2
    assert user.published() == published
    attached = user.run("attach", *at[:1])  # which does not know the password
    assert "put the right password" in attached.stderr
    assert attached.stdout.startswith("study: 2 cells · 2 done\n")
    output = user.run("status", "study.yaml", code=3).stderr  # of another ledger than the run's
    assert "pass the right ledger with --ledger" in output
    assert PASSWORD not in "".join(printed)
    assert url.replace(f":{PASSWORD}", "") in "".join(printed)
    for file in user.folder.rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes()
    assert not list(user.folder.rglob("ledger.db"))


def test_no_script_of_a_user_gets_its_password(
    user: User, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    user.write(
        "import json, os, sys\n"
        "def asks(adapter=None):\n"
        "    return {'accuracy': 0.5, 'password': 'PGPASSWORD' in os.environ}\n"
        "if __name__ == '__main__':\n"
        "    json.dump(asks(), open(sys.argv[1], 'w'))\n",
        "asks.py",
    )
    script = '{name: script, argv: [python, asks.py, "{result}"]}'
    user.write(
        MOCK.replace(
            "mock_benchmark",
            f"{{command: {script}}}, {{python: {{name: function, call: 'asks:asks'}}}}",
        )
    )
    at = ("study.yaml", "--ledger", url.replace(f":{PASSWORD}", ""))
    user.run("run", *at, "--cpu-slots", "1")
    found = [json.loads(content)["reported"]["password"] for content in user.published().values()]
    assert found == [False] * 4


def test_plans_and_gates_are_kept_in_it(user: User, url: str) -> None:
    """All that is shared out is one machine's; the gate of e1 fails, and is opened by hand."""
    campaign_s1.write(user.folder, user.folder / "no_hold")
    at = ("study.yaml", "--ledger", url)
    for host in ("lab1", "lab2"):
        report.write(user.folder / "reports", reported(host, LAPTOP))
    user.json("assign", *at, "--reports", "reports", "--effort", "0.1")
    lost = user.json("reassign", *at, "--failed-machine", "lab2", "--yes")
    assert set(lost["moved"]) == {"lab1"}
    (user.folder / "runner_hostname.txt").write_text("lab1\n")
    (user.folder / "tasks" / "lab1_tasks.json").unlink()  # the ledger knows as well
    user.run("work", *at, "--assigned", "--cpu-slots", "2", code=1)
    gates = user.json("gate", "show", *at, "--results", "elsewhere", code=1)["phases"]
    assert [one["state"] for one in gates] == ["passed", "passed", "closed", "held"]
    opened = ("gate", "override", at[0], "e1", *at[1:], "--results", "elsewhere")
    user.run(*opened, "--reason", "it is known")
    user.run("work", *at, "--assigned", "--cpu-slots", "2")
    assert user.json("status", *at)["success"] == sum(campaign_s1.CELLS.values())


def test_a_database_without_the_ledger_of_results_does_not_run_them_again(
    user: User, url: str, postgres: Postgres
) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--ledger", url)
    user.run("run", *at, "--cpu-slots", "1")
    published = user.published()
    database = url.rpartition("/")[2]
    postgres.sql("drop schema benchfleet_study cascade", database=database)
    for verb in ("run", "status"):
        refused = user.run(verb, *at, code=3).stderr
        assert "has no ledger of campaign 'study', but results exist" in refused
        assert PASSWORD not in refused
    assert user.json("ledger", "rebuild", *at)["taken"] == 2
    assert user.json("status", *at)["success"] == 2
    assert user.published() == published


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ((PASSWORD, "wrong"), "put the right password for it into ~/.pgpass or PGPASSWORD"),
        (("/lab_", "/no_"), "does not exist"),
        (("127.0.0.1:", "127.0.0.1:x"), "invalid integer value"),
        ((PASSWORD, f"{PASSWORD}%zz"), "write @ / % and blanks as %40 %2F %25 %20"),
        ((PASSWORD, f"{PASSWORD}@hush-hush"), "write @ / % and blanks as %40 %2F %25 %20"),
        ((PASSWORD, f"{PASSWORD}/2"), "write @ / % and blanks as %40 %2F %25 %20"),
        ((PASSWORD, f"{PASSWORD} 2"), "write @ / % and blanks as %40 %2F %25 %20"),
        ((PASSWORD, f"{PASSWORD}/2?x"), "is not an address of a ledger"),
        ((f":{PASSWORD}@", "@?password=hush-hush%zz&host="), 'invalid percent-encoded token: "…"'),
        ((f":{PASSWORD}@", "@/x?sslpassword=hush-hush&host="), "cannot be reached"),
    ],
)
def test_a_database_that_lets_nobody_in_is_named_with_the_reason(
    user: User, url: str, change: tuple[str, str], output: str
) -> None:
    user.write(MOCK)
    refused = user.run("run", "study.yaml", "--ledger", url.replace(*change), code=3).stderr
    assert output in refused
    assert PASSWORD not in refused
    assert refused.count("\n") == 1


def test_a_campaign_is_moved_there_and_back_with_its_results(user: User, url: str) -> None:
    user.write(MOCK)
    user.run("run", "study.yaml", "--only", "models=m1", "--cpu-slots", "1")
    made = user.run("ledger", "init", "study.yaml", "--ledger", url, code=3)
    assert "results exist" in made.stderr
    moved = user.run("ledger", "copy", "study.yaml", "--to", url).stdout
    assert moved.startswith("1 cell copied with all history to postgresql://secretive@")
    again = user.run("ledger", "copy", "study.yaml", "--to", url, code=3).stderr
    assert "is not empty: it has 1 cell and" in again
    user.run("run", "study.yaml", "--ledger", url, "--cpu-slots", "1")
    checked = user.json("ledger", "check", "study.yaml", "--ledger", url)
    assert (checked["cells"], checked["faults"]) == (2, [])
    user.run("ledger", "copy", "study.yaml", "--ledger", url, "--to", "sqlite:back.db")
    assert user.json("status", "study.yaml", "--ledger", "sqlite:back.db")["success"] == 2
    assert "--to" in user.run("ledger", "copy", "study.yaml", code=2).stderr


def test_a_run_serves_its_slots_while_the_server_is_away_and_goes_on_when_it_is_back(
    user: User, own_postgres: Postgres
) -> None:
    gate = user.write("", "gate")
    user.write(
        "campaign: study\n"
        "matrix:\n"
        "  models: [{name: m1, adapter: mock}, {name: m2, adapter: mock}]\n"
        "  configs: {dense: null}\n"
        "  benchmarks:\n"
        f"    - _hostile: {{samples: 16, seconds: 0.02, act: wait, at: 2, shared: {gate}}}\n"
    )
    at = ("study.yaml", "--ledger", own_postgres.url())
    running = user.start("run", *at, "--cpu-slots", "1")
    until(lambda: samples_kept(user) >= 1)
    own_postgres.stop()
    gate.unlink()
    until(lambda: samples_kept(user) == 16)  # the samples of the slot arrive and are kept
    own_postgres.start()
    output, errors = running.communicate(timeout=120)
    assert running.returncode == 0, output + errors
    output = " ".join((output + errors).split())
    assert output.count("running cells continue, and none begins until the ledger answers") == 1
    assert output.count("the ledger answers again; going on") == 1
    assert user.json("status", *at)["success"] == 2
    checked = user.json("ledger", "check", *at)
    assert (checked["cells"], checked["faults"]) == (2, [])


def test_a_run_whose_server_stays_away_ends_when_it_is_asked_to(
    user: User, own_postgres: Postgres
) -> None:
    gate = user.write("", "gate")
    user.write(MOCK.replace("mock_benchmark", f"{{_hostile: {{act: wait, shared: {gate}}}}}"))
    at = ("study.yaml", "--ledger", own_postgres.url())
    again = f"benchfleet run {' '.join(at)} --cpu-slots 1\n"
    running = user.start("run", *at, "--cpu-slots", "1")
    until(lambda: samples_kept(user) >= 1)
    own_postgres.stop()
    running.send_signal(signal.SIGINT)
    gate.unlink()
    output, errors = running.communicate(timeout=60)
    assert running.returncode == 3, output + errors
    assert "given back" in output
    assert (
        "the ledger does not answer: no summary and no report written; "
        f"once it answers continue with: {again}" in errors
    )
    assert errors.count("cannot be reached") == 1
    counts = r"study: 2 cells · 0 done \(as of \d\d:\d\d, when its ledger last answered\)\n"
    assert re.search(counts, output)
    assert "results  benchmark_results/study\n" in output
    shown = user.run("attach", "study.yaml", code=130).stdout
    assert re.search(counts, shown)
    assert "run again" not in output + errors
    assert "Traceback" not in output + errors
    own_postgres.start()
    assert user.json("status", *at)["success"] == 0


def test_an_empty_ledger_is_made_with_the_rights_of_others_said(user: User, url: str) -> None:
    user.write(MOCK)
    absent = user.run("ledger", "check", "study.yaml", "--ledger", url, code=3).stderr
    assert "has no ledger of 'study'" in absent
    output = user.run("ledger", "init", "study.yaml", "--ledger", url).stdout
    assert 'grant usage on schema "benchfleet_study" to ROLE;\n' in output
    assert "is made" in output
    assert "was there" in user.run("ledger", "init", "study.yaml", "--ledger", url).stdout


def test_a_role_that_may_only_look_moves_no_result(
    user: User, url: str, postgres: Postgres
) -> None:
    user.write(MOCK)
    user.run("run", "study.yaml", "--ledger", url, "--cpu-slots", "1")
    database, role = url.rpartition("/")[2], f"looks_{uuid.uuid4().hex[:8]}"
    postgres.sql(f"create role {role} login; {reader_grants('study', role)}", database=database)
    damaged = user.results / "m1/dense/mock_benchmark" / "metrics.json"
    damaged.write_text("{}")
    before = user.published()
    at = ("study.yaml", "--ledger", postgres.url(user=role, database=database))
    assert "damaged" in user.run("verify", *at, code=1).stdout
    refused = user.run("verify", *at, "--repair", "--yes", code=3).stderr
    assert "denies access: permission denied" in refused
    assert user.published() == before
    at = ("study.yaml", "--ledger", url)
    done = user.json("verify", *at, "--repair", "--yes", code=1)
    assert [one["act"] for one in done["repaired"]] == ["kept as evidence", "pending again"]
