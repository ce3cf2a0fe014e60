"""Your own scripts as cells: real processes, real slots, the installed command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from own_code import Study

HEAD = """\
campaign: study
defaults: {limits: {tries: 1}}
matrix:
  models: [{name: org/model-8B, adapter: none}]
  configs: {dense: null}
  benchmarks:
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "campaign", HEAD)


def test_a_script_that_reads_a_config_and_writes_a_result_runs_as_it_is(study: Study) -> None:
    """The kind of script that a worker of S1 starts: ``run_p1.py --config FILE --out FILE``."""
    study.script(
        "run_p1.py",
        """\
        import argparse, json, os, random
        parser = argparse.ArgumentParser()
        parser.add_argument("--config")
        parser.add_argument("--out")
        given = parser.parse_args()
        config = json.load(open(given.config))
        random.seed(config["seed"])
        print("running", config["benchmark"], config["subset"], os.environ["LEVEL"])
        rows = [{"id": str(i), "score": i % 2, "question": f"q{i}"} for i in range(config["limit"])]
        with open(given.out, "w") as out:
            json.dump({"passed": True, "accuracy": 0.5, "config": config, "samples": rows}, out)
        """,
    )
    study.write(
        """\
        - command:
            name: p1
            argv: [python, run_p1.py, --config, "{config}", --out, "{result}"]
            environment: {LEVEL: "{subset}-{repeat}"}
            subsets: [easy, hard]
            limit: 4
            generation: {temperature: 0}
        """
    )
    study.run()
    metrics = study.result("p1_easy+limit4/metrics.json")
    assert metrics["overall_score"] == 0.5
    assert metrics["summary"]["passed"] is True
    assert metrics["summary"]["samples"] == 4
    lines = study.text("p1_hard+limit4/samples.jsonl").splitlines()
    assert [json.loads(line)["score"] for line in lines] == [0, 1, 0, 1]
    assert "running p1 hard hard-0" in study.text("p1_hard+limit4/log.txt")
    output = study.result("p1_hard+limit4/result.json")["config"]
    assert output["model"]["name"] == output["model"]["path"] == "org/model-8B"
    assert output["config"] == {
        "name": "dense",
        "attention": [],
        "everywhere": False,
        "settings": {},
    }
    assert (output["subset"], output["repeat"], output["limit"]) == ("hard", 0, 4)
    assert output["generation"]["temperature"] == 0
    assert "nothing" in study.run() or "reused" in study.run()


def test_a_script_that_writes_into_its_runs_folder_runs_as_it_is(study: Study) -> None:
    """The kind of runner of S0: one result file a run, named by the entry, in a folder."""
    study.script(
        "single_run.py",
        """\
        import json, os, pathlib, socket, sys
        level, model, rerun, root = sys.argv[1:]
        runs = pathlib.Path(root)
        entry = f"{level}_{model.split('/')[-1]}_baseline_{rerun}"
        (runs / "raw").mkdir()
        (runs / "raw" / f"{entry}_raw.txt").write_text("what the model said")
        (runs / ".state").write_text("hidden")
        (runs / "log.txt").write_text("a log of its own")
        run = {"configuration": "baseline", "model": model, "level": level}
        metrics = {"total_time_s": 1.5, "success_rate": 0.75, "run": run}
        (runs / "metrics.json").write_text(json.dumps(metrics))
        """,
    )
    study.write(
        """\
        - command:
            name: levels
            argv: [python, single_run.py, "{subset}", "{model}", "{repeat}", "{scratch}"]
            metric: success_rate
            subsets: [carrot-easy]
        """
    )
    study.run()
    folder = "levels_carrot-easy"
    assert study.result(f"{folder}/cell.json")["metrics"]["overall_score"] == 0.75
    assert study.result(f"{folder}/metrics.json")["run"]["level"] == "carrot-easy"
    assert "said" in study.text(f"{folder}/raw/carrot-easy_model-8B_baseline_0_raw.txt")
    assert study.text(f"{folder}/own_.state") == "hidden"
    assert study.text(f"{folder}/own_log.txt") == "a log of its own"


def test_the_last_line_of_json_counts_where_no_file_was_written(study: Study) -> None:
    study.write(
        """\
        - command: {name: said, argv: [echo, '{"score": 0.25}']}
        - command: {name: devices, argv: [sh, -c, 'printf "[%s]" "$CUDA_VISIBLE_DEVICES";
            echo; echo "{\\"score\\": 1}"; echo bye']}
        """
    )
    study.run()
    assert study.result("said/metrics.json")["overall_score"] == 0.25
    assert study.text("devices/log.txt").startswith("[]\n")


def test_each_way_to_fail_has_its_name_and_the_others_go_on(study: Study) -> None:
    study.script("sleeps.py", "import time; print('asleep', flush=True); time.sleep(600)")
    study.write(
        """\
        - command: {name: exits, argv: [sh, -c, "echo some words >&2; exit 3"]}
        - command: {name: dies, argv: [sh, -c, "kill -9 $$"]}
        - command: {name: slow, argv: [python, sleeps.py], timeout: 1s}
        - command: {name: silent, argv: ["true"]}
        - command: {name: torn, argv: [sh, -c, "echo '{' > {result}"]}
        - command: {name: nan, argv: [echo, '{"accuracy": NaN}']}
        - command: {name: fine, argv: [echo, '{"accuracy": 1}']}
        """
    )
    study.run(code=1)
    found = study.failures()
    assert {name: (f["stage"], f["kind"]) for name, f in found.items()} == {
        "exits": ("benchmark", "error"),
        "dies": ("benchmark", "killed"),
        "slow": ("benchmark", "timeout"),
        "silent": ("collect", "bad_result"),
        "torn": ("collect", "bad_result"),
        "nan": ("collect", "bad_result"),
    }
    assert "exit code 3" in found["exits"]["message"]
    assert found["exits"]["log_tail"].splitlines() == ["some words", found["exits"]["message"]]
    assert "signal 9 (SIGKILL)" in found["dies"]["message"]
    assert "asleep" in found["slow"]["log_tail"]
    assert study.result("fine/metrics.json")["overall_score"] == 1


def test_a_script_that_changed_meanwhile_is_refused(study: Study) -> None:
    study.script("eval.py", "print('{\"score\": 2}')")
    study.write(
        """\
        - command: {name: first, argv: [sh, -c, "echo >> eval.py; echo '{\\"score\\": 1}'"]}
        - command: {name: mine, argv: [python, eval.py]}
        """
    )
    study.run(code=1)
    (file,) = study.folder.rglob("failure.json")
    failure = json.loads(file.read_text())
    assert (failure["stage"], failure["kind"]) == ("setup", "user_error")
    assert "mine has changed since the campaign was read" in failure["message"]
    assert f"{study.folder / 'eval.py'} was written last" in failure["message"]


def test_rules_call_a_command_by_its_name(study: Study) -> None:
    rules = '[{benchmarks: one, subsets: a}, {benchmarks: "!one", subsets: b}]'
    study.write(
        """\
        - command: {name: one, argv: [echo, "{subset}"], subsets: [a, b]}
        - command: {name: two, argv: [echo, "{subset}"], subsets: [a, b]}
        """,
        HEAD.replace("  benchmarks:", f"  exclude: {rules}\n  benchmarks:"),
    )
    labels = [cell.workload.label for cell in load_campaign(study.file).matrix.expand()]
    assert labels == ["one_b", "two_a"]


def test_a_loaded_model_is_let_go_before_a_command_runs(study: Study) -> None:
    head = HEAD.replace("adapter: none", "adapter: mock")
    study.write("- mock_benchmark\n- command: {name: mine, argv: [echo, '{\"score\": 1}']}\n", head)
    study.run()
    loaded = study.result("mock_benchmark/cell.json")["provenance"]["model"]
    assert loaded["adapter"] == "mock"
    assert study.result("mine/cell.json")["provenance"]["model"] == {}


def test_outputs_of_a_script_are_no_inputs(study: Study) -> None:
    study.script("eval.sh", "echo more >> run.log; echo '{\"score\": 1}'")
    study.script("run.log", "")
    study.write(
        """\
        - command: {name: one, argv: [sh, eval.sh, run.log], outputs: ["*.log"]}
        - command: {name: two, argv: [sh, eval.sh, run.log], inputs: [eval.sh]}
        """
    )
    study.run()
    assert not list(study.folder.rglob("failure.json"))


def test_a_python_script_that_crashes_leaves_its_stack_in_the_log(study: Study) -> None:
    study.script("crash.py", "import ctypes\nctypes.string_at(0)\n")
    study.write("- command: {name: crash, argv: [python, crash.py]}")
    study.run(code=1)
    failure = study.failures()["crash"]
    assert "SIGSEGV" in failure["message"]
    assert 'crash.py", line 2 in <module>' in failure["log_tail"]
