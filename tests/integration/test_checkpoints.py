"""The headers of checkpoints on disk, and what the local Hugging Face cache holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchfleet.machines.memory import read_checkpoint
from benchfleet.models.digest import cached_models

MODEL = Path(__file__).parents[2] / "examples" / "recall" / "model"


def _weights(file: Path, tensors: dict[str, tuple[str, list[int]]]) -> None:
    """A file with a header alone: its numbers are never read."""
    listed: dict[str, Any] = {
        name: {"dtype": kind, "shape": shape, "data_offsets": [0, 0]}
        for name, (kind, shape) in tensors.items()
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **listed}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header)


def _config(folder: Path, **values: Any) -> None:
    (folder / "config.json").write_text(json.dumps(values))


def test_the_demo_s_model_has_the_parameters_and_the_cache_that_torch_counts() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    checkpoint = read_checkpoint(MODEL)
    assert checkpoint.elements == {"F16": sum(p.numel() for p in model.parameters())}
    found = checkpoint.estimate(device="cpu", model_kwargs={}, batch=3, length=100)
    assert found.weights == sum(p.nbytes for p in model.parameters())
    cache = model(torch.ones(3, 100, dtype=torch.long)).past_key_values
    assert found.cache == sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)


def test_shards_are_those_of_the_index(tmp_path: Path) -> None:
    _config(tmp_path, dtype="float16")
    _weights(tmp_path / "model-1.safetensors", {"a": ("F16", [2, 3]), "b": ("I8", [5])})
    _weights(tmp_path / "model-2.safetensors", {"c": ("F16", []), "d": ("F16", [0, 9])})
    _weights(tmp_path / "consolidated.safetensors", {"a": ("F16", [100])})
    shards = {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    assert read_checkpoint(tmp_path).elements == {"F16": 7, "I8": 5}


def test_the_text_part_of_a_config_counts(tmp_path: Path) -> None:
    _config(tmp_path, dtype="float16", hidden_size=3, text_config={"hidden_size": 8})
    _weights(tmp_path / "model.safetensors", {"a": ("F16", [2])})
    assert read_checkpoint(tmp_path).config["hidden_size"] == 8


def test_pickled_weights_count_by_their_size(tmp_path: Path) -> None:
    _config(tmp_path, torch_dtype="float16")
    (tmp_path / "pytorch_model-1.bin").write_bytes(b"x" * 600)
    (tmp_path / "pytorch_model-2.bin").write_bytes(b"x" * 400)
    assert read_checkpoint(tmp_path).elements == {"F16": 500}


@pytest.mark.parametrize(
    ("config", "weights", "message"),
    [
        (b"{}", None, "holds no weights"),
        (b"[]", None, "holds no mapping"),
        (b"{", b"", "Expecting"),
        (b"{}", b"", "is not a safetensors file"),
        (b"{}", b"\xff" * 20, "is not a safetensors file"),
        (b"{}", (2).to_bytes(8, "little") + b"[]", "is not a safetensors file"),
        (b"{}", (8).to_bytes(8, "little") + b'{"a": 3}', "is not a safetensors file"),
    ],
)
def test_files_that_are_no_checkpoint_are_refused(
    tmp_path: Path, config: bytes, weights: bytes | None, message: str
) -> None:
    (tmp_path / "config.json").write_bytes(config)
    if weights is not None:
        (tmp_path / "model.safetensors").write_bytes(weights)
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path)


def test_the_complete_models_of_the_cache_are_listed_by_name(tmp_path: Path) -> None:
    def snapshot(name: str, commit: str) -> Path:
        folder = tmp_path / f"models--{name}" / "snapshots" / commit
        folder.mkdir(parents=True)
        _config(folder)
        _weights(folder / "model.safetensors", {})
        return folder

    for name, commit in (("org--main", "c1"), ("org--pinned", "c2"), ("bare", "c3")):
        snapshot(name, commit)
    for name, commit in (("org--main", "c1"), ("bare", "c3")):
        refs = tmp_path / f"models--{name}" / "refs"
        refs.mkdir()
        (refs / "main").write_text(commit)
    (snapshot("org--torn", "c4") / "model.safetensors").unlink()
    shutil.copytree(tmp_path / "models--bare", tmp_path / "datasets--org--data")
    found = cached_models(environ={"HF_HUB_CACHE": str(tmp_path)})
    assert found == ["bare", "org/main", "org/pinned@c2"]
    assert cached_models(environ={"HF_HUB_CACHE": str(tmp_path / "nowhere")}) == []
