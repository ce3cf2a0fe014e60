"""What a call of the library tells, refuses and leaves behind, and when it is interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from .conftest import User
from .scripts import MATRIX, START, lines, published, run, states

SLOW = """
def say(progress):
    if any("10/60" in text for text in progress.current_executions.values()):
        print(json.dumps("ten samples"), flush=True)

show(executor.run_benchmark_matrix(
    MODELS, [("dense", None)], [{"_hostile": {"samples": 60, "seconds": 0.05}}], ADAPTER,
    progress=say))
"""


def test_ctrl_c_gives_back_what_ran_and_the_next_call_goes_on_from_there(user: User) -> None:
    script = user.write(START + SLOW, "script.py")
    process = subprocess.Popen(
        [sys.executable, script],
        cwd=user.folder,
        env=user.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == "ten samples"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert err.rstrip().endswith("KeyboardInterrupt"), out + err
    assert states(user) == ["pending", "pending"]
    summary = json.loads((user.folder / "benchmark_results" / "execution_summary.json").read_text())
    assert summary["interrupted"]
    *_, again = lines(user, SLOW)
    assert len(again["done"]) == 2
    resumed = [
        json.loads(cell)["provenance"]["resumed_samples"] for cell in published(user).values()
    ]
    assert sum(resumed) >= 10


def test_executors_work_one_after_another_and_from_threads(user: User) -> None:
    output = lines(
        user,
        """
import threading

ended = []

def call(model):
    ran = BenchmarkExecutor([], 1, "results", quiet=True)
    ended.append(ran.run_benchmark_matrix([model], {"dense": None}, ["mock_benchmark"], ADAPTER))

threads = [threading.Thread(target=call, args=(model,)) for model in MODELS]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for model in MODELS:
    call(model)
for results in ended:
    show(results)
""",
    )
    assert [len(each["reused"]) for each in output] == [0, 0, 1, 1]
    assert len({each["done"][0] for each in output}) == 2


def test_progress_is_reported_from_nothing_to_all(user: User) -> None:
    call = """
seen = []
executor.run_benchmark_matrix(MODELS, [("dense", None)], ["mock_benchmark"], ADAPTER,
                              progress=seen.append)
print(json.dumps([[p.total_stubs, p.skipped_stubs, p.completed_stubs, p.failed_stubs, p.percent]
                  for p in seen]))
print(json.dumps([p.current_executions for p in seen if p.current_executions]))
"""
    counts, running = lines(user, call)
    assert counts[0] == [2, 0, 0, 0, 0.0]
    assert counts[-1] == [2, 0, 2, 0, 100.0]
    assert counts == sorted(counts)
    assert any("m2/dense/mock_benchmark" in text for each in running for text in each.values())
    assert {index for each in running for index in each} <= {"0", "1"}
    counts, running = lines(user, call)
    assert counts[-1] == [2, 2, 0, 0, 100.0]
    assert not running


def test_an_error_in_the_callback_is_raised_and_leaves_nothing_held(user: User) -> None:
    call = """
def fall(progress):
    if progress.current_executions:
        raise RuntimeError("the caller's own")

try:
    executor.run_benchmark_matrix(MODELS, [("dense", None)], ["mock_benchmark"], ADAPTER,
                                  progress=fall)
except RuntimeError as error:
    print(json.dumps(str(error)))
show(executor.run_benchmark_matrix(MODELS, [("dense", None)], ["mock_benchmark"], ADAPTER))
"""
    error, output = lines(user, call)
    assert error == "the caller's own"
    assert len(output["done"]) == 2


def test_wrong_arguments_are_all_reported_at_once_and_nothing_is_made(user: User) -> None:
    done = run(
        user,
        """
executor = BenchmarkExecutor([4096], 2)
executor.run_benchmark_matrix(
    ["./nowhere"], [("dense", None), ("s", {"streming": 8})],
    [BenchmarkConfig("recall", ["128", "12x"])], AdapterConfig("mok"))
""",
        code=1,
    )
    for part in (
        "gpu_ids",
        "sparse_attention_configs[1][1].streming",
        "did you mean 'streaming'",
        "benchmark_configs[0].subsets[1]",
        "adapter_config.adapter_name",
    ):
        assert part in done.stderr, done.stderr
    assert not (user.folder / "benchmark_results").exists()


def test_a_file_in_the_folders_place_is_reported_before_anything_runs(user: User) -> None:
    user.write("", "benchmark_results")
    assert "base_result_dir" in run(user, MATRIX, code=1).stderr


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("import benchfleet", ["benchfleet.compat", "benchfleet.errors", "importlib.metadata"]),
        ("from benchfleet import BenchmarkExecutor", ["torch", "transformers", "numpy", "yaml"]),
    ],
)
def test_importing_is_light(user: User, text: str, absent: list[str]) -> None:
    check = f"import sys; {text}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_script_of_the_hub_makes_its_executor_and_prints_its_end(user: User) -> None:
    (output,) = lines(
        user,
        """
executor = BenchmarkExecutor(
    gpu_ids=[], max_concurrent_runs=1, base_result_dir="benchmark_results",
    enable_resumability=True, required_result_files=["raw_results.csv"],
    timeout_per_benchmark=2.0, verbose=False)
for reused in (0, 1):
    results = executor.run_benchmark_matrix(
        MODELS[1:], [("dense", None)], ["mock_benchmark", {"_hostile": {"act": "hang"}}],
        ADAPTER, None, {}, limits={"tries": 1})
    now = results.progress
    assert [now.skipped_stubs, now.completed_stubs] == [reused, 1 - reused]
    assert [now.total_stubs, now.failed_stubs, now.percent] == [2, 1, 100.0]
assert [result.success for result in results.individual_results] == [True]
show(results)
""",
    )
    assert [kind for _, _, kind, _ in output["failed"]] == ["timeout"]
