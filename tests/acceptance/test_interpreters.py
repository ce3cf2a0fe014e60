"""Models whose slots have an interpreter of their own, with packages that the runner lacks."""

from __future__ import annotations

import json
import os
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tiny_models import saved_model

from .conftest import User

ENGINE = '''\
"""A stand-in for vLLM."""
from types import SimpleNamespace
from transformers import AutoTokenizer
__version__ = "0"
def SamplingParams(**settings): return settings
class LLM:
    def __init__(self, model, **settings):
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=4096))
    def get_tokenizer(self): return self.tokenizer
    def generate(self, requests, sampling, use_tqdm):
        answer = SimpleNamespace(text="ok", token_ids=[1, 2], finish_reason="length")
        return [SimpleNamespace(outputs=[answer]) for _ in requests]
'''
KNORM = '''\
"""Half of a cache's keys, by kvpress; run by the interpreter that has it."""
import json, sys
import torch, transformers
from kvpress import KnormPress
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
ids = transformers.AutoTokenizer.from_pretrained(sys.argv[1])("K1 " * 100, return_tensors="pt")
cache = transformers.DynamicCache()
with torch.no_grad(), KnormPress(compression_ratio=0.5)(model):
    model.model(input_ids=ids.input_ids, past_key_values=cache)
scores = {"kept": cache.get_seq_length() / ids.input_ids.shape[1]}
json.dump(scores, open(sys.argv[2], "w"))
'''


def _published(user: User) -> dict[str, Any]:
    (file,) = (user.folder / "benchmark_results").rglob("cell.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _environment(folder: Path) -> Path:
    """An environment with all that the tests' own has; its interpreter."""
    venv.create(folder, with_pip=False)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (site / "more.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "bin" / "python"


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed beside benchfleet")
def test_the_packages_of_an_adapter_may_be_in_the_interpreter_of_its_model(user: User) -> None:
    saved_model(user.folder / "tiny", "llama")
    python = _environment(user.folder / "own")
    user.write(
        "campaign: s\nmatrix:\n"
        f"  models: [{{name: m, adapter: vllm_offline, path: tiny, python: {python}}}]\n"
        "  benchmarks: [mock_benchmark]\n"
    )
    said = user.run("plan", "study.yaml", code=2).stderr
    assert f"'vllm_offline' needs vllm in {python}" in said
    assert f"{python} -m pip install 'benchfleet[vllm]'" in said
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(user.folder / "own")}))
    (site / "vllm.py").write_text(ENGINE)
    user.run("plan", "study.yaml")
    user.run("run", "study.yaml", "--cpu-slots", "1")
    assert _published(user)["provenance"]["model"]["vllm"] == "0"
    assert "0 cells are running" in user.run("doctor", "study.yaml", code=None).stdout


def test_kvpress_runs_in_the_interpreter_of_a_model(user: User) -> None:
    """With the real one. `make soak` makes its environment; it cannot live beside ours."""
    python = os.environ.get("KVPRESS_PYTHON")
    if not python:
        pytest.skip("KVPRESS_PYTHON names no interpreter with kvpress 0.5.5")
    saved_model(user.folder / "tiny", "llama")
    (user.folder / "knorm.py").write_text(KNORM)
    user.write(
        "campaign: s\nmatrix:\n"
        f"  models: [{{name: m, path: tiny, python: {python}}}]\n"
        "  benchmarks:\n"
        '    - command: {name: knorm, argv: [python, knorm.py, "{model_path}", "{result}"]}\n'
    )
    user.run("run", "study.yaml", "--cpu-slots", "1")
    assert _published(user)["metrics"]["overall_score"] == pytest.approx(0.5, abs=0.01)
