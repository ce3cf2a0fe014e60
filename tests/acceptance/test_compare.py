"""`benchfleet compare`: two sets of results side by side, as a user and a CI job see it."""

from __future__ import annotations

import json

from .conftest import MOCK, User

BOTH = ("compare", "--in", "study.yaml", "models=m1", "models=m2")


def test_two_models_of_one_campaign_are_compared(finished: User) -> None:
    output = finished.run(*BOTH).stdout
    assert output.startswith("A models=m1   B models=m2")
    assert "no regression in " in output
    changes = json.loads(finished.run(*BOTH, "--json").stdout)["changes"]
    assert {change["model"] for change in changes} == {""}
    assert all(change["difference"]["n"] > 0 for change in changes)


def test_an_axis_with_one_name_on_each_side_tells_them_apart_however_it_is_selected(
    user: User,
) -> None:
    user.write(MOCK.replace("Ingham}}", "Ingham}}\n    - {name: other, adapter: mock}"))
    user.run("run", "study.yaml")
    compare = ("compare", "--in", "study.yaml")
    for both in (("model=m1", "models=m2"), ("models=*1", "models=!m1,!m2")):
        (change,) = json.loads(user.run(*compare, *both, "--json").stdout)["changes"]
        assert change["difference"]["n"] > 0, both
    output = user.run(*compare, "models=m*", "models=other").stdout
    assert output.count("not in models=other") == 2
    assert output.count("not in models=m*") == 1
    assert "nothing was compared; see the remarks" in output


def test_a_campaign_is_compared_with_a_part_of_itself(finished: User) -> None:
    both = ("compare", "study.yaml", "study.yaml:models=m1", "--json")
    remarks = {(c["model"], c["remark"]) for c in json.loads(finished.run(*both).stdout)["changes"]}
    assert remarks == {("m1", ""), ("m2", "not in study.yaml:models=m1")}


def test_a_policy_decides_the_exit_code(finished: User) -> None:
    finished.write("rules: [{benchmark: '*', max_drop: 1}]", "go.yaml")
    output = finished.run(*BOTH, "--policy", "go.yaml").stdout
    assert "verdict: GO" in output
    finished.write("rules: [{benchmark: nothing, max_drop: 0.5}]", "open.yaml")
    output = finished.run(*BOTH, "--policy", "open.yaml", "--markdown", code=1).stdout
    assert output.startswith("**INCONCLUSIVE**")


def test_a_suite_is_reported_compared_and_decided_without_a_new_run(finished: User) -> None:
    file = finished.folder / "study.yaml"
    finished.write(file.read_text() + "suites: {core: {benchmarks: [mock_benchmark]}}\n")
    assert "suite core: m1" in finished.run("report", "study.yaml").stdout
    finished.write("rules: [{benchmark: core, max_drop: 1}]", "go.yaml")
    output = finished.run(*BOTH, "--policy", "go.yaml").stdout
    assert "suite core" in output
    assert "verdict: GO" in output


def test_the_ending_of_the_file_chooses_the_format(finished: User) -> None:
    for name, start in (("c.md", "| benchmark |"), ("c.json", "{"), ("c.txt", "A models=m1")):
        assert finished.run(*BOTH, "--output", name).stdout == f"changes  {name}\n"
        assert (finished.folder / name).read_text().startswith(start)
    refused = finished.run(*BOTH, "--output", "c.xlsx", code=2).stderr
    assert "unknown format '.xlsx': use .txt, .md, .json" in refused
    assert not (finished.folder / "c.xlsx").exists()


def test_results_are_compared_by_when_they_ended(finished: User) -> None:
    both = ("compare", "--in", "study.yaml", "until=2020-01-01", "since=2020-01-01", "--json")
    changes = json.loads(finished.run(*both).stdout)["changes"]
    assert {change["remark"] for change in changes} == {"no result in until=2020-01-01"}
    assert all(change["after"] is not None for change in changes)
    wrong = ("compare", "--in", "study.yaml", "models=m1:since=soon", "models=m1")
    assert "invalid date 'soon'" in finished.run(*wrong, code=2).stderr


def test_wrong_input_names_what_to_write(finished: User) -> None:
    for words, message in (
        (("compare", "models=m1", "models=m2"), "write FILE:axis=name, or add --in FILE"),
        (
            ("compare", "--in", "study.yaml", "models=m1", "models=m3"),
            "models=m3  no model is called 'm3'",
        ),
        ((*BOTH, "--policy", "absent.yaml"), "absent.yaml cannot be read"),
        (("compare", "--in", "study.yaml", "study.yaml", "models=m1"), "drop one"),
        ((*BOTH, "--json", "--markdown"), "exclude each other"),
        ((*BOTH, "--json", "--output", "a.md"), "its ending is of the format markdown, not json"),
        (("compare", "study.yaml", "study.yaml"), "is compared with itself"),
    ):
        assert message in finished.run(*words, code=2).stderr
    finished.write("rules: [{max_drop: -1}]", "bad.yaml")
    assert "rules[0].max_drop" in finished.run(*BOTH, "--policy", "bad.yaml", code=2).stderr
    finished.write("rules: [", "torn.yaml")
    assert "torn.yaml" in finished.run(*BOTH, "--policy", "torn.yaml", code=2).stderr


def test_a_campaign_that_never_ran_has_nothing_to_compare(user: User) -> None:
    from .conftest import MOCK

    user.write(MOCK)
    refused = user.run("compare", "study.yaml", "study.yaml:models=m1", code=2).stderr
    assert "run it first: benchfleet run study.yaml" in refused


def test_a_comparison_without_its_samples_is_no_success(finished: User) -> None:
    user = finished
    (user.folder / "study.yaml").write_text(
        (user.folder / "study.yaml").read_text().replace("mock_benchmark", "mock_benchmark, recall")
    )
    user.run("run", "study.yaml")
    checked = (*BOTH, "--fail-on-regression")
    before = finished.run(*checked, code=None)
    samples = user.results / "m1" / "dense" / "mock_benchmark" / "samples.jsonl"
    samples.write_text(samples.read_text().replace('"score": 1.0', '"score": 0.0', 1))
    done = finished.run(*checked, code=1)
    assert "samples are missing" in done.stdout
    assert "`benchfleet verify` names what was changed" in done.stdout
    assert "1 comparison lacks samples, so --fail-on-regression fails" in done.stderr
    assert "lacks samples" not in before.stderr


def test_nothing_compared_is_no_success(finished: User) -> None:
    days = ("until=2001-01-01", "until=2001-01-02", "--json", "--fail-on-regression")
    done = finished.run("compare", "--in", "study.yaml", *days, code=1)
    assert "nothing was compared" in done.stderr
    json.loads(done.stdout)
