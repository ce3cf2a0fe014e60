"""The library as its users have it: a script in a folder of their own, run and run again."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from benchfleet.frames import load
from benchfleet.machines.probe import report
from capabilities import fleet

from .conftest import User
from .scripts import MATRIX, lines, published, run, states

DEMO = Path(__file__).parents[2] / "examples" / "recall" / "model"


def test_a_matrix_is_run_once_and_a_second_script_reuses_all_of_it(user: User) -> None:
    (first,) = lines(user, MATRIX)
    before = published(user)
    assert len(before) == len(first["done"]) == 12
    assert not first["reused"]
    assert [str(user.folder / "benchmark_results" / path) for path in before] == sorted(
        first["done"]
    )
    assert "meta-llama_m1/streaming/recall_256" in before
    assert set(first["scores"]) == {0.0, 0.2}
    root = user.folder / "benchmark_results"
    names = {entry.name for entry in root.iterdir() if not entry.name.startswith(".")}
    assert names - {"ledger.db-wal", "ledger.db-shm"} == {
        "execution_summary.json", "ledger.db", "m2", "meta-llama_m1",
    }  # fmt: skip
    assert json.loads((root / "execution_summary.json").read_text())["counts"]["success"] == 12
    cell = root / "m2" / "dense" / "mock_benchmark"
    assert {file.name for file in cell.iterdir()} == {
        "cell.json", "config.json", "log.txt", "metrics.json", "raw_results.csv", "samples.jsonl",
    }  # fmt: skip
    (second,) = lines(user, MATRIX)
    assert second["reused"] == first["done"]
    assert second["scores"] == first["scores"]
    assert second["counts"]["reused"] == 12
    assert published(user) == before


def test_the_documents_second_matrix_has_thirty_two_cells(user: User) -> None:
    (output,) = lines(
        user,
        """
show(executor.run_benchmark_matrix(
    MODELS,
    [("dense", None), ("streaming", {"streaming": 32}), ("oracle", [{"oracle_top_k": 0.1}]),
     ("sink_local", {"sink_local": {"window_size": 32, "sink_size": 2}})],
    [BenchmarkConfig("recall", ["64", "128", "256"], {"samples": 1}),
     BenchmarkConfig("mock_benchmark")],
    ADAPTER, generation_kwargs={"max_new_tokens": 4},
))
""",
    )
    assert len(set(output["done"])) == output["counts"]["total"] == 32


def test_the_documents_first_call_runs_on_local_folders_with_objects(user: User) -> None:
    for name in ("microsoft/Phi-4-mini-instruct", "meta-llama/Llama-3.1-8B-Instruct"):
        shutil.copytree(DEMO, user.folder / name)
    other = user.folder / "microsoft" / "Phi-4-mini-instruct" / "generation_config.json"
    other.write_text(json.dumps({**json.loads(other.read_text()), "top_k": 7}))  # another content
    call = """
import torch
from benchfleet.models.attention.sink_local import Streaming
executor = BenchmarkExecutor(gpu_ids=[], max_concurrent_runs=1, quiet=True)  # one import
streaming_config = Streaming(window_size=32)
results = executor.run_benchmark_matrix(
    model_names=["microsoft/Phi-4-mini-instruct", "meta-llama/Llama-3.1-8B-Instruct"],
    sparse_attention_configs=[("dense", None), ("streaming", streaming_config)],
    benchmark_configs=[
        BenchmarkConfig("recall", ["128", "512"], {"samples": 4}),
        BenchmarkConfig("mock_benchmark"),
    ],
    adapter_config=AdapterConfig(
        model_kwargs={"torch_dtype": torch.bfloat16}, tokenizer_kwargs={"padding_side": "left"}
    ),
    generation_kwargs={"max_new_tokens": 2},
)
show(results)
assert all(r.stub.model_name.count("/") == 1 for r in results.individual_results)
assert {r.stub.sparse_attention_config for r in results.individual_results} == {
    None, streaming_config}
"""
    (first,) = lines(user, call)
    before = published(user)
    assert len(first["done"]) == 12, first["failed"]
    assert "microsoft_Phi-4-mini-instruct/dense/recall_128" in before
    assert "meta-llama_Llama-3.1-8B-Instruct/streaming/mock_benchmark" in before
    cell = json.loads(before["microsoft_Phi-4-mini-instruct/streaming/recall_512"])
    assert cell["cell"]["model"]["model_kwargs"] == {"torch_dtype": "bfloat16"}
    assert cell["provenance"]["model"]["dtype"] == "bfloat16"
    (second,) = lines(user, call)
    assert second["reused"] == first["done"]
    assert published(user) == before


FAILING = """
show(executor.run_benchmark_matrix(
    MODELS[:1], [("dense", None)],
    ["mock_benchmark", {"_hostile": {"act": "raise", "once": "tried", "samples": 2}}],
    ADAPTER, **MORE))
"""


def test_a_failed_cell_is_reported_with_its_reason_and_the_next_call_tries_it_again(
    user: User,
) -> None:
    (first,) = lines(user, "MORE = {}" + FAILING)
    assert [Path(path).name for path in first["done"]] == ["mock_benchmark"]
    ((path, state, kind, message),) = first["failed"]
    assert (Path(path).name, state, kind) == ("_hostile", "partial", "error")
    assert "it went wrong on purpose" in message
    (left,) = lines(user, "MORE = {'retry_failed': False}" + FAILING)
    assert left["failed"] == first["failed"]
    (again,) = lines(user, "MORE = {}" + FAILING)
    assert len(again["done"]) == 2
    assert not again["failed"]


def test_a_cell_that_fits_no_slot_here_says_so(user: User) -> None:
    (output,) = lines(
        user,
        """
MODELS[1]["needs"] = {"gpus": 2}
show(executor.run_benchmark_matrix(MODELS, [("dense", None)], ["mock_benchmark"], ADAPTER))
""",
    )
    assert len(output["done"]) == 1
    assert output["failed"][0][1:] == [
        "pending", "error", "it cannot run here: needs 2 GPUs, this run has 0",
    ]  # fmt: skip


def test_a_deleted_result_is_run_again_and_nothing_else(user: User) -> None:
    run(user, MATRIX)
    before = published(user)
    shutil.rmtree(user.folder / "benchmark_results" / "m2" / "dense" / "recall_128")
    (again,) = lines(user, MATRIX)
    assert len(again["reused"]) == 11
    after = published(user)
    assert {path for path in after if after[path] != before[path]} == {"m2/dense/recall_128"}


def test_a_lost_ledger_is_made_again_from_the_results(user: User) -> None:
    run(user, MATRIX)
    before = published(user)
    for file in (user.folder / "benchmark_results").glob("ledger.db*"):
        file.unlink()
    (again,) = lines(user, MATRIX)
    assert len(again["reused"]) == 12
    assert published(user) == before


def test_campaigns_in_the_same_folder_are_left_alone(finished: User) -> None:
    before = published(finished)
    (output,) = lines(finished, MATRIX)
    assert (len(output["done"]), output["reused"]) == (12, [])
    assert states(finished) == ["success"] * 12
    assert before.items() <= published(finished).items()
    assert "all cells are done" in finished.run("run", "study.yaml").stdout


def test_a_folder_that_was_renamed_is_still_known(user: User) -> None:
    run(user, MATRIX)
    os.rename(user.folder / "benchmark_results", user.folder / "kept")
    (again,) = lines(user, "executor = BenchmarkExecutor([], 1, 'kept', quiet=True)" + MATRIX)
    assert len(again["reused"]) == 12


def test_the_ledger_may_lie_elsewhere(user: User) -> None:
    (output,) = lines(
        user, "executor = BenchmarkExecutor([], 1, ledger='sqlite:own.db', quiet=True)" + MATRIX
    )
    assert len(output["done"]) == 12
    assert (user.folder / "own.db").is_file()
    assert not (user.folder / "benchmark_results" / "ledger.db").exists()


def test_the_verbs_and_data_frames_find_what_a_call_left_in_its_folder(user: User) -> None:
    run(user, "executor = BenchmarkExecutor([], 1, 'res', quiet=True)" + MATRIX)
    ledger = ("--ledger", f"sqlite:///{user.folder}/res/ledger.db")
    assert "12 results verified" in user.run("verify", *ledger).stdout
    assert "12 results verified" in user.run("verify", *ledger, "--results", "res").stdout
    assert set(load(user.folder / "res").samples["label"]) >= {"mock_benchmark", "recall_256"}
    folder = user.run("status", "res", code=2).stderr
    assert "name its campaign file, or --ledger sqlite:///" in folder


def test_a_script_is_called_by_its_own_name(user: User) -> None:
    script = {"command": {"name": "own", "argv": ["sh", "-c", "echo 1 > {result}"]}}
    printed = run(
        user,
        f"""
done = executor.run_benchmark_matrix(MODELS[1:], [("dense", None)], [{script!r}], ADAPTER)
print([one.stub.benchmark_name for one in done.individual_results])
""",
    )
    assert "['own']" in printed.stdout


def test_a_variant_that_was_planned_is_run_in_place_of_its_model(user: User) -> None:
    """As `assign` gave it to a laptop on which the model itself has no room."""
    model = """{name: r1-7b, size: 9GB, adapter: mock, model_kwargs: {answer: full},
      variants: [{name: r1-7b-q4, size: 4.5GB, adapter: mock, model_kwargs: {answer: small}}]}"""
    matrix = f"models: [{model}]\n  benchmarks: [mock_benchmark]\n"
    user.write(f"campaign: benchmark_matrix\nmatrix:\n  {matrix}", "study.yaml")
    report.write(user.folder / "reports", fleet()[1])
    ledger = ("--ledger", "sqlite:benchmark_results/ledger.db")
    user.run("assign", "study.yaml", "--reports", "reports", "--effort", "0.1", *ledger)
    call = f"""
import yaml
model = yaml.safe_load({model!r})
show(executor.run_benchmark_matrix([model], [("dense", None)], ["mock_benchmark"], ADAPTER))
"""
    (first,) = lines(user, call)
    assert [path.partition("benchmark_results/")[2] for path in first["done"]] == [
        "r1-7b-q4/dense/mock_benchmark"
    ]
    (again,) = lines(user, call)
    assert again["reused"] == first["done"]


FOREIGN = """
show(executor.run_benchmark_matrix(MODELS[1:], [("dense", None)], ["mock_benchmark"], ADAPTER))
"""


def test_metrics_without_a_seal_are_no_result(user: User) -> None:
    """Foreign numbers at a cell's path are neither returned nor reused; the own result waits."""
    place = user.folder / "benchmark_results" / "m2" / "dense" / "mock_benchmark"
    place.mkdir(parents=True)
    (place / "metrics.json").write_text('{"overall_score": 0.987}')
    for _ in range(2):
        (output,) = lines(user, FOREIGN)
        assert not output["done"]
        ((path, state, kind, message),) = output["failed"]
        assert (path, state, kind) == (str(place), "success", "bad_result")
        assert "the sealed result waits in" in message
    shutil.rmtree(place)
    (output,) = lines(user, FOREIGN)
    assert output["scores"] == [0.2]


def test_a_changed_metrics_file_is_no_result(user: User) -> None:
    lines(user, FOREIGN)
    place = user.folder / "benchmark_results" / "m2" / "dense" / "mock_benchmark"
    (place / "metrics.json").write_text('{"overall_score": 0.987}')
    (output,) = lines(user, FOREIGN)
    assert not output["done"]
    assert "metrics.json is not as it was sealed" in output["failed"][0][3]


def test_a_script_with_a_metrics_file_of_its_own_has_an_overall_score(user: User) -> None:
    argv = ["sh", "-c", "echo '{\"passed\": true}' > {scratch}/metrics.json"]
    (output,) = lines(
        user,
        f"""
script = {{"command": {{"name": "own", "argv": {argv!r}}}}}
show(executor.run_benchmark_matrix(MODELS[1:], [("dense", None)], [script], ADAPTER))
""",
    )
    assert output["scores"] == [1.0]


def test_limits_and_repeats_hold_for_every_cell_of_a_call(user: User) -> None:
    (output,) = lines(
        user,
        """
executor = BenchmarkExecutor([], 1, limits={"tries": 1, "cell": 600}, repeats=2, quiet=True)
show(results := executor.run_benchmark_matrix(
    MODELS[1:], [("dense", None)],
    ["mock_benchmark", {"_hostile": {"act": "raise"}}], ADAPTER))
assert [r.stub.repeat for r in results.individual_results] == [0, 1]
assert [f.attempts for f in results.failed_executions] == [1, 1]
""",
    )
    assert len(output["done"]) == len(output["failed"]) == 2


def test_a_call_prints_what_it_skips_unless_it_is_quiet(user: User) -> None:
    call = """
for quiet in (False, True):
    BenchmarkExecutor([], 1, quiet=quiet).run_benchmark_matrix(
        MODELS, [("dense", None)], ["mock_benchmark"], ADAPTER)
"""
    assert run(user, call).stdout == ""
    skipped = "meta-llama_m1/dense/mock_benchmark, m2/dense/mock_benchmark"
    assert run(user, call).stdout == f"skipping 2 of 2 cells, done before: {skipped}\n"
    shutil.rmtree(user.folder / "benchmark_results" / "m2" / "dense" / "mock_benchmark")
    printed = run(user, call).stdout
    assert "1 result was deleted here; its cell is pending again: m2/dense/mock" in printed
