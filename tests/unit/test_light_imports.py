"""Plugins are light to import: lists, checks and plans load no package that computes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TASKS = Path(__file__).parents[2] / "examples" / "recall"
HEAVY = (
    *("torch", "transformers", "vllm", "llama_cpp", "numpy", "pandas", "huggingface_hub"),
    *("datasets", "lm_eval", "inspect_ai", "mlflow", "wandb", "jsonschema", "ray", "safetensors"),
)
PROGRAM = f"""
import contextlib, sys, typing
from benchfleet import registry
from benchfleet.errors import MissingExtra
for family in typing.get_args(registry.Family):
    for name in registry.names(family):
        with contextlib.suppress(MissingExtra):  # its module is imported all the same
            registry.load(family, name)
            print(family, name)
import benchfleet.models.attention.compose
from benchfleet.benchmarks.lm_eval.benchmark import LmEval
task = LmEval({{"folder": {str(TASKS)!r}, "include_path": "tasks"}})
assert task.data_digest("recall_choice")
sys.exit(" ".join(name for name in {HEAVY!r} if name in sys.modules) or 0)
"""


@pytest.mark.slow
def test_importing_all_plugins_and_checking_a_task_loads_nothing_heavy() -> None:
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    loaded = set(done.stdout.splitlines())
    assert {"models transformers", "attention quest", "benchmarks lm_eval"} <= loaded
