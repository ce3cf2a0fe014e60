"""The output of `plan`, before anything runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import MOCK, User

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "recall" / "model"
RECALL = f"""\
campaign: study
cpu_slots: 2
matrix:
  models:
    - {{name: tiny, path: {MODEL}}}
    - {{name: two-gpus, path: {MODEL}, model_kwargs: {{dtype: float32}}, needs: {{gpus: 2}}}}
  configs:
    dense: null
    local: {{attention: {{local: 8}}}}
  benchmarks:
    - recall: {{subsets: [128, 512], samples: 3}}
"""


def test_a_plan_says_what_each_cell_needs_takes_and_whether_it_can_run(user: User) -> None:
    user.write(RECALL)
    plan = user.json("plan", "study.yaml")
    cells = {cell["cell"]: cell for cell in plan["cells"]}
    assert len(cells) == 8
    tiny = cells["tiny/dense/recall_512"]
    assert tiny["state"] == "pending"
    assert tiny["expected"] is None
    memory = tiny["memory"]
    parameters = MODEL.joinpath("model.safetensors").stat().st_size // 2
    assert memory["weights"] == pytest.approx(4 * parameters, rel=0.05)
    # 2 layers × 2 key heads of 32, keys and values in float32: 1 kB a token.
    assert memory["cache"] == 1024 * memory["tokens"]
    assert 515 <= memory["tokens"] <= 550
    assert memory["bounded_by"] == "benchmark"
    barred = cells["two-gpus/dense/recall_512"]
    assert barred["needs"] == {"gpus": 2, "vram": 0, "endpoint": ""}
    assert barred["impossible"] == "needs 2 GPUs, this run has 0"
    assert plan["counts"] | {"to_run": 4, "impossible": 4} == plan["counts"]
    assert plan["suggestion"]["max_concurrent_runs"] == 2
    assert plan["expected_seconds"] is None
    assert plan["cells_of_unknown_time"] == 4
    assert not (user.folder / "benchmark_results").exists()
    output = user.run("plan", "study.yaml").stdout
    assert "study: 8 cells · 4 to run · 0 reused · 4 cannot run here" in output
    assert "needs 2 GPUs, this run has 0: two-gpus/dense/recall_128" in output
    assert "and 1 more" in output
    assert "time     unknown: no cell like these has ended yet" in output
    assert "suggest  max_concurrent_runs: 2" in output


def test_after_a_part_ran_the_plan_knows_what_is_reused_and_how_long_the_rest_takes(
    user: User,
) -> None:
    user.write(MOCK.replace("[mock_benchmark]", "[recall: {subsets: [64, 128], samples: 4}]"))
    user.run("run", "study.yaml", "--only", "models=m1", "--only", "subsets=64")
    cells = {cell["cell"]: cell for cell in user.json("plan", "study.yaml")["cells"]}
    assert cells["m1/dense/recall_64"]["state"] == "reused"
    assert cells["m1/dense/recall_128"]["expected"]["like"] == "same model"
    assert cells["m2/dense/recall_128"]["expected"]["like"] == "another model"
    plan = user.json("plan", "study.yaml", "--only", "models=m1")
    assert plan["counts"]["reused"] == 1
    assert plan["cells_of_unknown_time"] == 0
    assert plan["expected_seconds"] >= plan["cells"][1]["expected"]["seconds"]  # and loading
    assert "1 reused" in user.run("plan", "study.yaml").stdout


def test_a_large_matrix_is_summed_up_and_listed_only_when_asked(user: User) -> None:
    answers = "\n".join(
        f"    - {{name: m{n}, adapter: mock, model_kwargs: {{answer: a{n}}}}}" for n in range(60)
    )
    user.write(
        f"campaign: study\ndefaults: {{repeats: 5}}\nmatrix:\n  models:\n{answers}\n"
        "  configs: {dense: null, local: {attention: {local: 4}}}\n"
        "  benchmarks: [mock_benchmark, recall: [64, 128]]\n"
    )
    output = user.run("plan", "study.yaml").stdout.splitlines()
    assert len(output) < 60
    assert output[0].startswith("study: 1800 cells · 1800 to run")
    assert [line.split()[:3] for line in output if " m0 " in line] == [["m0", "30", "30"]]
    assert "… and 20 more" in "\n".join(output)
    smaller = user.run("plan", "study.yaml", "--only", "models=m[12]?").stdout
    assert [line.split()[:3] for line in smaller.splitlines() if " m10 " in line] == [
        ["m10", "mock_benchmark", "10"],
        ["m10", "recall", "20"],
    ]
    listed = user.run("plan", "study.yaml", "--cells").stdout
    assert listed.count("m0/dense/recall_64/r") == 5
    assert len(listed.splitlines()) > 1800
    assert len(user.json("plan", "study.yaml")["cells"]) == 1800


def test_memory_that_will_be_short_is_warned_of(user: User) -> None:
    shutil.copytree(MODEL, user.folder / "model")
    config = user.folder / "model" / "config.json"
    huge = {**json.loads(config.read_text()), "num_hidden_layers": 10**7}
    config.write_text(json.dumps(huge))
    user.write(RECALL.replace(str(MODEL), "./model"))
    output = user.run("plan", "study.yaml", "--only", "models=tiny").stdout
    assert "warning  memory is short: one cell may take" in output
    assert "suggest  max_concurrent_runs: 1 (bounded by memory)" in output


def test_gpus_that_are_not_here_bar_every_cell_and_the_plan_still_stands(user: User) -> None:
    user.write(MOCK + "gpus: [77]\n")
    plan = user.json("plan", "study.yaml")
    assert plan["counts"]["to_run"] == 0
    assert "study.yaml, line " in plan["cells"][0]["impossible"]
    assert "77" in plan["cells"][0]["impossible"]
    assert plan["suggestion"] is None
    assert "cannot run here" in user.run("plan", "study.yaml").stdout
    assert user.json("plan", "study.yaml", "--cpu-slots", "1", code=0)["counts"]["impossible"] == 0


def test_explain_tells_key_by_key_what_makes_a_cell_a_new_one(finished: User) -> None:
    finished.write(
        MOCK.replace("answer: Ingham", "answer: Varn, seconds: 0").replace(
            "[mock_benchmark]", "[mock_benchmark: {rows: 6}]"
        )
    )
    found = finished.json("plan", "study.yaml", "--explain", "m2/dense/mock_benchmark")
    assert found["cell"].startswith("m2/dense/mock_benchmark@")
    assert found["state"] == "pending"
    (before,) = found["earlier"]
    assert (before["cell"], before["state"]) == ("m2/dense/mock_benchmark", "success")
    assert before["differences"] == [
        {"key": "model.model_kwargs.answer", "old": "Ingham", "new": "Varn"},
        {"key": "model.model_kwargs.seconds", "old": "(absent)", "new": 0},
        {"key": "workload.params.rows", "old": 5, "new": 6},
    ]
    for word in (found["cell"], found["fingerprint"][:8]):
        output = finished.run("plan", "study.yaml", "--explain", word).stdout
        assert '  model.model_kwargs.answer: "Ingham" → "Varn"' in output
        assert "  workload.params.rows: 5 → 6" in output
    planned = {cell["cell"] for cell in finished.json("plan", "study.yaml")["cells"]}
    finished.run("run", "study.yaml")
    assert planned <= set(finished.published())


def test_explain_says_where_there_is_no_history_and_names_the_cells_near_an_unknown_one(
    user: User,
) -> None:
    user.write(MOCK)
    explain = ("plan", "study.yaml", "--explain")
    output = user.run(*explain, "m1/dense/mock_benchmark").stdout
    assert "no other cell of this name is in the ledger" in output
    output = user.run(*explain, "m1/dense/mock", code=2).stderr
    assert "did you mean m1/dense/mock_benchmark" in output


@pytest.mark.parametrize("verb", ["plan", "init", "schema"])
def test_looking_ahead_imports_nothing_heavy(user: User, verb: str) -> None:
    user.write(RECALL)
    words = {"plan": ["plan", "study.yaml"], "init": ["init"], "schema": ["schema"]}[verb]
    code = (
        "import sys; from benchfleet.cli.main import main; code = main(sys.argv[1:]); "
        "print({'torch', 'transformers', 'numpy', 'pydantic', 'rich'} & set(sys.modules), "
        "file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=user.folder,
        env=user.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "set()\n"


def test_a_campaign_in_toml_and_in_python_runs_as_one_in_yaml(user: User) -> None:
    toml = (
        'campaign = "study"\n[[matrix.models]]\nname = "m1"\nadapter = "mock"\n'
        'model_kwargs = {answer = "Ada Brandt"}\n[[matrix.models]]\nname = "m2"\n'
        'adapter = "mock"\nmodel_kwargs.answer = "Ingham"\n[matrix]\n'
    )
    user.write(toml.replace("[matrix]\n", "") + "[matrix.configs.dense]\n", "broken.toml")
    assert "name at least one benchmark" in user.run("run", "broken.toml", code=2).stderr
    user.write(
        'matrix.benchmarks = ["mock_benchmark"]\n' + toml.replace("[matrix]\n", ""), "s.toml"
    )
    user.write(
        "print('made')\n"
        "def campaign():\n"
        "    models = [dict(name=n, adapter='mock', model_kwargs={'answer': a})\n"
        "              for n, a in (('m1', 'Ada Brandt'), ('m2', 'Ingham'))]\n"
        "    return {'campaign': 'study',\n"
        "            'matrix': {'models': models, 'benchmarks': ['mock_benchmark']}}\n",
        "s.py",
    )
    user.write(MOCK)
    user.run("run", "study.yaml")
    for name in ("s.toml", "s.py"):
        assert user.json("plan", name)["counts"]["reused"] == 2
        assert "all cells are done" in user.run("run", name).stdout


def test_cells_whose_data_set_is_out_of_reach_wait_and_are_named_once(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lm_eval")
    user.write(
        f"""\
campaign: study
matrix:
  models: [{{name: tiny, path: {MODEL}}}]
  configs: {{dense: null, local: {{attention: {{local: 8}}}}}}
  benchmarks: [mock_benchmark, {{lm_eval: {{tasks: [gsm8k], limit: 1}}}}]
"""
    )
    monkeypatch.setenv("HF_DATASETS_CACHE", str(user.folder / "no-data"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    plan = user.json("plan", "study.yaml")
    reasons = {cell["impossible"] for cell in plan["cells"] if "gsm8k" in cell["cell"]}
    (reason,) = reasons
    assert reason.startswith("the data set openai/gsm8k is not in this host's cache")
    assert "127.0.0.1 cannot be reached" in reason
    output = user.run("run", "study.yaml", "--cpu-slots", "1", code=1).stdout
    # As the run begins, when it looks around first (if it lasts so long), and at its end.
    assert output.count("is not in this host's cache") in (2, 3)
    assert "cannot run here: tiny/dense/lm_eval_gsm8k+limit1 and 1 more: the data set" in output
    assert len(user.published()) == 2
    assert "2 pending" in user.run("status", "study.yaml").stdout


def test_a_plan_in_json_has_the_hardware_that_cells_need(user: User) -> None:
    hardware = "  hardware: [{gpu: A100, provider: vast}]\n  benchmarks:"
    user.write(MOCK.replace("  benchmarks:", hardware))
    cells = user.json("plan", "study.yaml")["cells"]
    assert {one["impossible"] for one in cells} == {"it is not rented at vast"}
    assert cells[0]["hardware"][0]["gpu"] == "A100"


def test_a_plan_says_how_many_samples_show_an_effect(finished: User) -> None:
    lines = finished.run("plan", "study.yaml", "--effect", "0.1").stdout
    assert "effect   0.1: mock_benchmark needs " in lines
    (effect,) = finished.json("plan", "study.yaml", "--effect", "0.1")["effects"]
    assert effect["samples"] == 5
    wrong = finished.run("plan", "study.yaml", "--effect", "0", code=2).stderr
    assert "invalid effect '0': use a number above 0" in wrong


def test_the_prompts_of_a_cell_are_printed_as_text_and_tokens(user: User) -> None:
    script = '    - command: {name: script, argv: [python, x.py, "{result}"]}\n'
    user.write(RECALL + script)
    (user.folder / "x.py").write_text("")
    plan = ("plan", "study.yaml", "--prompts")
    seen = user.json(*plan, "tiny/local/recall_128", "-n", "2")
    assert [one["sample"] for one in seen["prompts"]] == ["0", "1"]
    first = seen["prompts"][0]
    assert len(first["tokens"]) == len(first["pieces"]) == len(first["text"]) + 1  # <s> leads
    assert first["pieces"][:2] == ["<s>", first["text"][0]]
    output = user.run(*plan, seen["fingerprint"][:8]).stdout
    assert "tiny/local/recall_128: prompts of 3 samples, no weights loaded" in output
    assert first["text"] in output
    assert f"{first['tokens'][0]}=<s> {first['tokens'][1]}={first['text'][0]}" in output
    wrong = user.run(*plan, "tiny/locl/recall_128", code=2).stderr
    assert "did you mean tiny/local/recall_128" in wrong
    refused = user.run(*plan, "tiny/dense/script", code=2).stderr
    assert "the prompts of script cannot be shown: a script asks by itself" in refused
    assert not (user.folder / "benchmark_results").exists()


def test_several_answers_at_temperature_0_are_warned_of(user: User) -> None:
    several = "[recall: {subsets: [64], samples: 2, samples_per_question: 4}]"
    user.write(MOCK.replace("[mock_benchmark]", several))
    warning = "recall asks for 4 answers to each question at temperature 0, so all are the same"
    assert warning in user.run("plan", "study.yaml").stdout
    (shown,) = user.json("plan", "study.yaml")["warnings"]
    assert warning in shown
    user.write(
        "defaults: {generation: {temperature: 0.7}}\n" + (user.folder / "study.yaml").read_text()
    )
    assert user.json("plan", "study.yaml")["warnings"] == []


def test_cells_that_runners_keeps_from_this_host_cannot_run_here(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write(MOCK + "runners:\n  lab1: {models: [m2]}\n")
    monkeypatch.setenv("BENCHFLEET_HOST", "lab1")
    shown = user.run("plan", "study.yaml").stdout
    assert "'runners' excludes lab1" in shown
    reasons = [row["impossible"] for row in user.json("plan", "study.yaml")["cells"]]
    assert reasons == ["'runners' excludes lab1", ""]
    monkeypatch.setenv("BENCHFLEET_HOST", "lab2")
    assert "excludes" not in user.run("plan", "study.yaml").stdout
