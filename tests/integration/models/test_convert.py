"""Weights of HashAttention come out of pickles, and nothing else does."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from benchfleet.models.attention.convert import convert_weights

WEIGHTS = {
    layer: {
        f"{of}_{what}": [torch.randn(2, 4, 3) if what == "matrix" else torch.randn(2, 3)]
        for of in ("query", "key")
        for what in ("matrix", "bias")
    }
    for layer in range(2)
}


def written(path: Path, how: str) -> Path:
    if how == "pickle":
        path.write_bytes(pickle.dumps(WEIGHTS))
    else:
        torch.save(WEIGHTS, path)
    return path


@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_weights_are_the_same_afterwards(tmp_path: Path, how: str) -> None:
    target = tmp_path / "weights.safetensors"
    assert convert_weights(written(tmp_path / "weights.pkl", how), target) == 2
    tensors = load_file(target)
    assert len(tensors) == 8
    assert torch.equal(tensors["layers.1.key.0.weight"], WEIGHTS[1]["key_matrix"][0])
    assert torch.equal(tensors["layers.0.query.0.bias"], WEIGHTS[0]["query_bias"][0])


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/should-not-be-there",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps(_Evil()), "it would run posix.system"),
        (pickle.dumps({0: {"query_matrix": []}}), "by layer it must have query_matrix"),
        (b"no pickle", "holds no weights"),
        (b"", "holds no weights"),
    ],
)
def test_anything_else_is_refused_and_not_run(tmp_path: Path, content: bytes, message: str) -> None:
    source = tmp_path / "weights.pkl"
    source.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        convert_weights(source, tmp_path / "weights.safetensors")
    assert not (tmp_path / "weights.safetensors").exists()
    assert not Path("/tmp/should-not-be-there").exists()
