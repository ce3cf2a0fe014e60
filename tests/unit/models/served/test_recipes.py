"""The command line of each kind of server."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.models.served import recipes
from benchfleet.models.served.managed import OllamaServeAdapter
from benchfleet.models.served.recipes import RECIPES


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "find_program", lambda name: name)


@pytest.mark.parametrize(
    ("name", "gpus", "line"),
    [
        ("vllm", 1, "vllm serve M --host 127.0.0.1 --port {port} --x 1"),
        (
            "vllm",
            2,
            "vllm serve M --host 127.0.0.1 --port {port} --tensor-parallel-size 2 --x 1",
        ),
        ("llama_cpp", 0, "llama-server -m M --host 127.0.0.1 --port {port} --x 1"),
        (
            "llama_cpp",
            1,
            "llama-server -m M --host 127.0.0.1 --port {port} --n-gpu-layers 999 --x 1",
        ),
        (
            "transformers_serve",
            0,
            "transformers serve M --host 127.0.0.1 --port {port} --device cpu --x 1",
        ),
        ("transformers_serve", 1, "transformers serve M --host 127.0.0.1 --port {port} --x 1"),
        ("ollama_serve", 1, "ollama serve --x 1"),
    ],
)
def test_the_user_s_arguments_come_last(name: str, gpus: int, line: str) -> None:
    assert " ".join(RECIPES[name].command_line("M", ["--x", "1"], gpus=gpus)) == line


def test_sglang_is_a_module_of_this_interpreter() -> None:
    line = RECIPES["sglang"].command_line("M", [], gpus=2)
    assert line[1:3] == ["-m", "sglang.launch_server"]
    assert line[-2:] == ["--tp", "2"]


def test_a_pulled_model_is_identified_by_its_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    file = tmp_path / "manifests/registry.ollama.ai/library/small/1b"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    digest = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # of {}
    assert OllamaServeAdapter.digest("small:1b") == f"ollama:{digest}"
    with pytest.raises(ValueError, match="ollama pull other"):
        OllamaServeAdapter.digest("other")
