"""Weights of HashAttention from a pickle to safetensors, without running code of the pickle."""

from __future__ import annotations

import io
import pickle
import sys
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def convert_weights(source: Path, target: Path) -> int:
    """Write the networks of `source` to `target`; the number of layers.

    The pickle has by layer ``query_matrix``, ``query_bias``, ``key_matrix`` and ``key_bias``: lists
    with a tensor for each linear layer, [heads, in, out] and [heads, out]. Raises ValueError for
    anything else, and OSError.
    """
    from safetensors.torch import save_file

    try:
        weights = _read(source.read_bytes())
    except (pickle.UnpicklingError, EOFError, RuntimeError, AttributeError, KeyError) as error:
        raise ValueError(f"{source} holds no weights of HashAttention: {error}") from error
    save_file(_named(weights, source), target)
    return len(weights)


def _named(weights: Any, source: Path) -> dict[str, Tensor]:
    tensors = {}
    try:
        for layer, networks in weights.items():
            for of in ("query", "key"):
                pairs = zip(networks[f"{of}_matrix"], networks[f"{of}_bias"], strict=True)
                for number, (weight, bias) in enumerate(pairs):
                    name = f"layers.{int(layer)}.{of}.{number}"
                    tensors[f"{name}.weight"] = weight.detach().contiguous()
                    tensors[f"{name}.bias"] = bias.detach().contiguous()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{source} holds no weights of HashAttention; by layer it must have query_matrix,"
            " query_bias, key_matrix and key_bias"
        ) from error
    return tensors


def _read(content: bytes) -> Mapping[int, Any]:
    import torch

    if content[:2] == b"PK":  # what torch.save writes
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    else:
        loaded = _TensorsOnly(io.BytesIO(content)).load()
    return dict(loaded)


class _TensorsOnly(pickle.Unpickler):
    """Makes tensors and plain containers, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        import torch
        from torch._utils import _rebuild_tensor_v2

        allowed = {
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor_v2,
            ("torch.storage", "_load_from_bytes"): _storage,
            ("collections", "OrderedDict"): OrderedDict,
            ("torch", "device"): torch.device,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"it would run {module}.{name}")
        return allowed[module, name]


def _storage(content: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


if __name__ == "__main__":
    try:
        many = convert_weights(Path(sys.argv[1]), Path(sys.argv[2]))
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    print(f"{sys.argv[2]}: the networks of {many} layers")
