"""Lists of what a campaign may name; every example is one that a campaign file takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchfleet import registry
from benchfleet.cli.main import main

_ENTRIES = {
    "benchmarks": "models: [{name: m, adapter: mock}]\n  configs: {dense: null}\n"
    "  benchmarks: [%s]",
    "attention": "models: [{name: m, adapter: mock}]\n  configs: {%s}\n  benchmarks: [recall]",
    "adapters": "models: [%s]\n  configs: {dense: null}\n  benchmarks: [recall]",
}


def listed(verb: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main([verb, "--json"]) == 0
    entries: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return entries


@pytest.fixture(autouse=True)
def _empty_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("verb", "family"),
    [("benchmarks", "benchmarks"), ("adapters", "models"), ("attention", "attention")],
)
def test_a_list_names_all_of_a_family_with_examples_of_the_right_form(
    verb: str, family: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = listed(verb, capsys)
    assert [entry["name"] for entry in entries] == registry.names(family)
    assert all(entry["description"] and entry["example"] for entry in entries)
    file = tmp_path / "study.yaml"
    (tmp_path / "eval.py").write_text("")
    (tmp_path / "my_eval.py").write_text("def evaluate(model, **_): return 1\n")
    for entry in entries:
        example = entry["example"].removeprefix("- ")
        file.write_text(f"campaign: s\nmatrix:\n  {_ENTRIES[verb] % example}\n")
        main(["plan", str(file)])
        output = capsys.readouterr()
        form = ("no parameter", "no key", "no benchmark", "no attention", "no adapter", "unknown")
        assert not any(words in output.err for words in form), (example, output.err)
        assert "line 3" not in output.err or "YAML" not in output.err


def test_benchmarks_name_their_data_and_whether_this_host_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hf" / "datasets" / "openai___gsm8k").mkdir(parents=True)
    entries = {entry["name"]: entry for entry in listed("benchmarks", capsys)}
    assert entries["gsm8k"]["data"] == {"openai/gsm8k": True}
    assert entries["longbench"]["data"] == {"Xnhyacinth/LongBench": False}
    assert main(["benchmarks"]) == 0
    output = capsys.readouterr().out
    assert "openai/gsm8k (here)" in output
    assert "- longbench: [narrativeqa, qasper]" in output


def test_an_adapter_whose_program_is_missing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    entries = {entry["name"]: entry for entry in listed("adapters", capsys)}
    assert not entries["ollama_serve"]["available"]
    assert "install Ollama" in entries["ollama_serve"]["problem"]
    assert entries["mock"]["available"]


def test_models_are_those_of_the_cache_with_their_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models"]) == 0
    assert "no model in" in capsys.readouterr().out
    hub = tmp_path / "hf" / "hub"
    folder = hub / "models--org--tiny" / "snapshots" / ("a" * 40)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (folder / "pytorch_model.bin").write_bytes(b"0" * 2_000_000)
    (hub / "models--org--half" / "snapshots" / ("b" * 40)).mkdir(parents=True)
    whole, half = listed("models", capsys)
    assert whole["name"] == f"org/tiny@{'a' * 40}"
    assert whole["description"].startswith("LlamaForCausalLM, 2")
    assert (half["name"], half["available"]) == ("org/half", False)
