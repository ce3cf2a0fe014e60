"""The command line of each kind of server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure
from benchfleet.models.served import recipes
from benchfleet.models.served.managed import (
    LlamaCppAdapter,
    ManagedAdapter,
    OllamaServeAdapter,
    SglangAdapter,
    TransformersServeAdapter,
)
from benchfleet.models.served.recipes import RECIPES
from benchfleet.models.served.vllm import VllmAdapter


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


@pytest.mark.parametrize(
    ("adapter", "server", "refused"),
    [
        (VllmAdapter, {"args": ["--port", "80"]}, "'--port'"),
        (VllmAdapter, {"args": ["--x", "--port=80"]}, "'--port=80'"),
        (LlamaCppAdapter, {"args": ["--host", "lab1"]}, "'--host'"),
        (LlamaCppAdapter, {"env": {"LLAMA_ARG_PORT": "80"}}, "'LLAMA_ARG_PORT'"),
        (OllamaServeAdapter, {"env": {"OLLAMA_HOST": "lab1"}}, "'OLLAMA_HOST'"),
    ],
)
def test_address_and_port_are_picked_by_benchfleet(
    adapter: type[ManagedAdapter], server: dict[str, object], refused: str
) -> None:
    why = adapter.check(of(server), Config(name="dense"))
    assert why == f"server: {refused} is not yours to set; benchfleet picks address and port"


@pytest.mark.parametrize("server", [{"args": ["--port-range", 9]}, {"env": {"A": 1}}, {}])
def test_other_settings_of_a_server_are_taken(server: dict[str, object]) -> None:
    assert VllmAdapter.check(of(server), Config(name="dense")) is None


def test_an_unknown_key_of_a_server_is_refused_with_those_that_it_has() -> None:
    why = VllmAdapter.check(of({"arg": []}), Config(name="dense"))
    assert why == "the keys of 'server' are args, env and start_timeout"


def test_the_time_that_a_server_may_start_is_no_part_of_the_identity(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"weights")
    (tmp_path / "study.yaml").write_text(
        "campaign: study\n"
        "matrix:\n"
        "  models:\n"
        "    - {name: m, adapter: llama_cpp, path: m.gguf, server: {start_timeout: 5s}}\n"
        "    - {name: n, adapter: llama_cpp, path: m.gguf, server: {args: [--x]}}\n"
        "  configs: {dense: null}\n"
        "  benchmarks: [recall]\n"
    )
    cells = load_campaign(tmp_path / "study.yaml").matrix.expand()
    slow, plain = (next(one.model for one in cells if one.model.name == name) for name in "mn")
    assert slow.outside == {"start_timeout": "5s"}
    same = replace(slow, name="n", model_kwargs={"server": {"args": ["--x"]}})
    assert slow.identity() != plain.identity() == same.identity()


def of(server: dict[str, object]) -> Model:
    kwargs = {"server": server}
    return Model(name="m", adapter="vllm", source="M", digest="d", model_kwargs=kwargs)


def saved(folder: Path, **settings: object) -> str:
    """A folder of a LoRA adapter, as PEFT saves it."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", **settings}))
    (folder / "adapter_model.safetensors").write_bytes(folder.name.encode())
    return str(folder)


@pytest.mark.parametrize(
    ("ranks", "taken"),
    [([4], "8"), ([8, 16], "16"), ([17], "32"), ([300, 4], "320")],
)
def test_vllm_has_all_loras_of_a_base_with_the_rank_that_fits(
    tmp_path: Path, ranks: list[int], taken: str
) -> None:
    loras = {f"a{n}": saved(tmp_path / f"{n}", r=rank) for n, rank in enumerate(ranks)}
    kwargs = {"server": {"args": ["--max-loras", 2]}}
    model = Model(
        name="m", adapter="vllm", source="M", digest="d", model_kwargs=kwargs,
        outside={"loras": loras},
    )  # fmt: skip
    modules = " ".join(f"{name}={folder}" for name, folder in loras.items())
    expected = f"--enable-lora --max-lora-rank {taken} --lora-modules {modules} --max-loras 2"
    line = " ".join(VllmAdapter.server_command(model, gpus=1))
    assert line == f"vllm serve M --host 127.0.0.1 --port {{port}} {expected}"
    assert VllmAdapter.check(model, Config(name="dense")) is None


def test_a_rank_that_vllm_does_not_take_is_refused(tmp_path: Path) -> None:
    loras = {"wide": saved(tmp_path / "wide", r=8, rank_pattern={"q_proj": 1024})}
    model = Model(name="m", adapter="vllm", source="M", digest="d", outside={"loras": loras})
    with pytest.raises(ValueError, match="wide has rank 1024, and vLLM takes 512 at most"):
        VllmAdapter.server_command(model)


def test_llama_cpp_is_a_module_of_this_interpreter_where_its_program_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recipes, "find_program", lambda name: None)
    line = RECIPES["llama_cpp"].command_line("M", ["--x"], gpus=1)
    expected = "-m llama_cpp.server --model M --host 127.0.0.1 --port {port} --n_gpu_layers -1 --x"
    assert " ".join(line[1:]) == expected
    assert "--n_gpu_layers" not in RECIPES["llama_cpp"].command_line("M", [], gpus=0)


def test_sglang_is_a_module_of_this_interpreter() -> None:
    line = RECIPES["sglang"].command_line("M", [], gpus=2)
    expected = "-m sglang.launch_server --model-path M --host 127.0.0.1 --port {port} --tp 2"
    assert " ".join(line[1:]) == expected


@pytest.mark.parametrize("adapter", [SglangAdapter, TransformersServeAdapter])
def test_a_folder_is_identified_as_for_vllm(adapter: type[ManagedAdapter], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert adapter.digest(str(tmp_path)) == VllmAdapter.digest(str(tmp_path))


def test_a_gguf_file_is_identified_by_its_content_and_downloads_nothing(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"one")
    digest = LlamaCppAdapter.digest(str(file))
    model = Model(name="m", adapter="llama_cpp", source=str(file), digest=digest)
    assert LlamaCppAdapter.fetch(model) == file
    assert LlamaCppAdapter.downloads(model) == ()
    file.write_bytes(b"two")
    assert LlamaCppAdapter.digest(str(file)) != digest
    with pytest.raises(CellFailure):
        LlamaCppAdapter.fetch(model)
    file.unlink()
    with pytest.raises(CellFailure, match="is not on this host; copy it there"):
        LlamaCppAdapter.fetch(model)
    with pytest.raises(ValueError, match="is not a file; give the path"):
        LlamaCppAdapter.digest(str(file))


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
