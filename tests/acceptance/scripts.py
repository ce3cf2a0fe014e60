"""Scripts of people who use the library in a folder of their own."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from typing import Any

from .conftest import User

START = """\
import json
from benchfleet import AdapterConfig, BenchmarkConfig, BenchmarkExecutor, CampaignError

def show(results):
    print(json.dumps({
        "done": [r.stub.result_dir for r in results.individual_results],
        "reused": [r.stub.result_dir for r in results.individual_results if r.reused],
        "failed": [[f.stub.result_dir, f.state, f.error_type, f.error_message]
                   for f in results.failed_executions],
        "scores": [r.metrics["overall_score"] for r in results.individual_results],
        "counts": results.execution_summary["counts"],
    }))

MODELS = [
    {"name": "meta-llama/m1", "model_kwargs": {"answer": "Ada Brandt"}},
    {"name": "m2", "model_kwargs": {"answer": "Ingham"}},
]
ADAPTER = AdapterConfig("mock")
executor = BenchmarkExecutor(gpu_ids=[], max_concurrent_runs=2, quiet=True)
"""

MATRIX = """
show(executor.run_benchmark_matrix(
    MODELS, [("dense", None), ("streaming", {"streaming": 32})],
    [BenchmarkConfig("recall", ["128", 256], {"samples": 2}), BenchmarkConfig("mock_benchmark")],
    ADAPTER, generation_kwargs={"max_new_tokens": 4},
))
"""


def run(user: User, text: str, *, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a script to its end; `code` is the exit code it must end with."""
    done = subprocess.run(
        [sys.executable, "-W", "error", user.write(START + text, "script.py")],
        cwd=user.folder,
        env={**user.environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def lines(user: User, text: str) -> list[Any]:
    """What a script printed, a JSON value on each line."""
    return [json.loads(line) for line in run(user, text).stdout.splitlines()]


def published(user: User) -> dict[str, bytes]:
    root = user.folder / "benchmark_results"
    files = {file.parent.relative_to(root).as_posix(): file for file in root.rglob("cell.json")}
    return {path: files[path].read_bytes() for path in sorted(files) if path[0] != "."}


def states(user: User) -> list[str]:
    ledger = sqlite3.connect(user.folder / "benchmark_results" / "ledger.db")
    rows = ledger.execute("select state from cell").fetchall()
    ledger.close()
    return sorted(state for (state,) in rows)
