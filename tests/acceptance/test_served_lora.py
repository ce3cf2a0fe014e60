"""LoRA adapters behind a server that benchfleet starts; the simulated server stands in for vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stand_in_servers import vllm
from tiny_models import saved_model

from .conftest import User

STUDY = """\
campaign: study
defaults: {generation: {max_new_tokens: 4}, limits: {tries: 1}}
matrix:
  models:
    - {name: base, adapter: vllm, path: base}
    - {name: one, base: base, lora: one}
    - {name: two, base: base, lora: two}
    - {name: untrained, base: base, lora: untrained}
  configs: {dense: null, loud: {chat: {template_kwargs: {loud: true}}}}
  benchmarks: [mock_benchmark]
"""


def lora(folder: Path) -> None:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 16}))
    (folder / "adapter_model.safetensors").write_bytes(folder.name.encode())


def test_one_server_has_the_base_and_its_adapters(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter that answers as its base fails by name."""
    program = vllm(user.folder / "bin")
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    saved_model(user.folder / "base", "llama")
    for name in ("one", "two", "untrained"):
        lora(user.folder / name)
    user.write(STUDY)
    folder = user.folder
    modules = " ".join(f"{name}={folder / name}" for name in ("one", "two", "untrained"))
    options = f"--enable-lora --max-lora-rank 16 --lora-modules {modules}"
    assert options in " ".join(user.run("plan", "study.yaml", "--cpu-slots", "1").stdout.split())
    user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    assert (program.parent / "starts").read_text() == "started\n"
    texts: dict[str, Any] = {}
    for path, seal in user.published().items():
        samples = (user.results / path / "samples.jsonl").read_text().splitlines()
        texts[path] = tuple(json.loads(sample)["predicted_answer"] for sample in samples)
        model = json.loads(seal)["cell"]["model"]
        made = json.loads(seal)["provenance"]["model"]
        assert made.get("lora_digest", "") == model.get("lora_digest", "")
        assert options in " ".join(made["command"])  # the base's too, which its identity lacks
    assert len(texts) == 6  # those of base, one and two
    assert len({texts[f"{name}/dense/mock_benchmark"] for name in ("base", "one", "two")}) == 3
    assert "load: lora_not_applied" in user.run("failures", "study.yaml", code=None).stdout
