"""How much memory a model will take: weights from a checkpoint's headers, cache from its config.

The formula is the field's: parameters × bits per weight / 8, and for each token in the cache
2 (keys and values) × layers × key heads × head size × bytes of a number, and an overhead. It
errs upwards: better a slot too few than one that runs out of memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path
from typing import Any, Literal

from benchfleet.domain.resource import DeviceKind

# What a process holds before its model: on the CPU Python with torch and transformers (0.37 GB
# measured), on a GPU the CUDA context with its libraries.
_PROCESS_BYTES: Mapping[DeviceKind, int] = {"cpu": 400_000_000, "gpu": 800_000_000}
_OVERHEAD_SHARE = 0.20  # of the weights: activations, buffers, fragments
_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "float64"), 64),
    **dict.fromkeys(("F32", "I32", "U32", "float32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16", "float16", "bfloat16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"), 8),
    "F4": 4,
}
_STORED = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_FLOATS = tuple(_STORED.values())
_MAX_HEADER_BYTES = 100_000_000  # bytes at most, as the format has it
_DEFAULT_SEQUENCE_TOKENS = 8192  # tokens, for a model that does not say how many it takes


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Bytes that one slot takes with a model and its cache."""

    weights: int
    cache: int
    overhead: int
    tokens: int  # in the cache, over the whole batch
    bounded_by: Literal["benchmark", "model"]  # what says how many tokens there may be

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.overhead


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What the headers of a model's files say."""

    elements: Mapping[str, int]  # numbers of each stored type, such as {"BF16": 8_030_261_248}
    config: Mapping[str, Any]  # of its config.json, the text part where there are several

    def estimate(
        self, *, device: DeviceKind, model_kwargs: Mapping[str, Any], batch: int, length: int | None
    ) -> Estimate:
        """What it takes on a device, opened with these kwargs.

        `length` is the most tokens that a prompt and its answer have, None where only the model
        bounds them. Raises ValueError where config or kwargs do not say enough.
        """
        limit = _first(self.config, "max_position_embeddings", "n_positions", "max_seq_len")
        limit = limit or _DEFAULT_SEQUENCE_TOKENS
        by_model = length is None or length > limit
        tokens = limit if length is None else min(length, limit)
        number = self._number(device, model_kwargs)
        weights = self.weights(device=device, model_kwargs=model_kwargs)
        return Estimate(
            weights=weights,
            cache=batch * self._cached_numbers(tokens) * _BITS[number] // 8,
            overhead=_PROCESS_BYTES[device] + ceil(_OVERHEAD_SHARE * weights),
            tokens=batch * tokens,
            bounded_by="model" if by_model else "benchmark",
        )

    def weights(self, *, device: DeviceKind, model_kwargs: Mapping[str, Any]) -> int:
        """Bytes of the weights alone, as they are loaded. Raises ValueError as `estimate`."""
        bits = _quantised(model_kwargs) or _BITS[self._number(device, model_kwargs)]
        return sum(
            count * (bits if kind in _FLOATS else _bits(kind)) // 8
            for kind, count in self.elements.items()
        )

    def _number(self, device: DeviceKind, model_kwargs: Mapping[str, Any]) -> str:
        """The type that it is loaded with, as the transformers adapter chooses it."""
        dtype = str(model_kwargs.get("dtype") or model_kwargs.get("torch_dtype") or "")
        dtype = dtype.removeprefix("torch.") or ("float32" if device == "cpu" else "auto")
        if dtype == "auto":
            own = self.config.get("dtype") or self.config.get("torch_dtype") or ""
            stored = [kind for kind in self.elements if kind in _FLOATS]
            dtype = str(own).removeprefix("torch.") or (stored[0] if stored else "float32")
        _bits(dtype)
        return dtype

    def _cached_numbers(self, tokens: int) -> int:
        """Keys and values of one sequence, over all layers."""
        config = self.config
        layers = _needed(config, "num_hidden_layers", "n_layer", "num_layers")
        heads = _needed(config, "num_attention_heads", "n_head")
        width = _first(config, "head_dim") or (
            _needed(config, "hidden_size", "n_embd", "d_model") // heads
        )
        key_heads = _first(config, "num_key_value_heads") or heads
        window = _first(config, "sliding_window") or tokens
        # A recurrent layer's state does not grow with the text; another kind's may.
        tokens_by_kind = {"sliding_attention": min(tokens, window), "linear_attention": 0}
        kinds = config.get("layer_types")
        if not isinstance(kinds, list):
            return 2 * key_heads * width * layers * tokens
        return 2 * key_heads * width * sum(tokens_by_kind.get(str(kind), tokens) for kind in kinds)


def read_checkpoint(folder: Path) -> Checkpoint:
    """The headers of a model folder. Raises ValueError, or OSError, where they say too little."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    if not isinstance(config, dict):
        raise ValueError(f"{folder / 'config.json'} holds no mapping")
    text = config.get("text_config")
    config = {**config, **text} if isinstance(text, dict) else config
    elements: dict[str, int] = {}
    for file in _weight_files(folder):
        for kind, count in _elements(file):
            elements[kind] = elements.get(kind, 0) + count
    if elements:
        return Checkpoint(elements=elements, config=config)
    size = sum(file.stat().st_size for file in folder.glob("pytorch_model*.bin"))
    if not size:
        raise ValueError(f"{folder} holds no weights (*.safetensors)")
    return checkpoint_of_size(size, config)


def checkpoint_of_size(size: int, config: Mapping[str, Any]) -> Checkpoint:
    """A checkpoint of which only its config and the bytes of its weights are known. Raises
    ValueError."""
    own = str(config.get("dtype") or config.get("torch_dtype") or "float32")
    stored = _STORED.get(own.removeprefix("torch."))
    if stored is None:
        raise ValueError(f"nothing is known of the type {own}")
    return Checkpoint(elements={stored: size * 8 // _BITS[stored]}, config=config)


def memory_for_weights(weights: int, device: DeviceKind) -> int:
    """Bytes that a process takes with a model of so many, but for its cache."""
    return weights + _PROCESS_BYTES[device] + ceil(_OVERHEAD_SHARE * weights)


def available_memory() -> int:
    """Bytes of RAM that this machine can still give."""
    import psutil

    return int(psutil.virtual_memory().available)


def _elements(file: Path) -> list[tuple[str, int]]:
    """The stored type and the count of numbers of each tensor, by the file's header alone."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= _MAX_HEADER_BYTES:
            raise ValueError(f"{file} is not a safetensors file")
        header = json.loads(stream.read(length))
    try:
        return [
            (str(tensor["dtype"]), prod(tensor["shape"]))
            for name, tensor in header.items()
            if name != "__metadata__"
        ]
    except (AttributeError, KeyError, TypeError):
        raise ValueError(f"{file} is not a safetensors file") from None


def _weight_files(folder: Path) -> list[Path]:
    """Those that are loaded; some models lie there a second time in another layout."""
    for index in folder.glob("*.safetensors.index.json"):
        try:
            shards = json.loads(index.read_text("utf-8"))["weight_map"].values()
        except (AttributeError, KeyError, TypeError):
            raise ValueError(f"{index} is not an index of weights") from None
        return sorted({folder / shard for shard in shards})
    whole = folder / "model.safetensors"
    return [whole] if whole.is_file() else sorted(folder.glob("*.safetensors"))


_QUANTO_BITS = {"int8": 8, "float8": 8, "int4": 4, "int2": 2}


def _quantised(model_kwargs: Mapping[str, Any]) -> int | None:
    """Bits of a weight that is quantised while it is loaded; None where none is."""
    settings = model_kwargs.get("quantization_config")
    if settings is None:
        return None
    if isinstance(settings, Mapping) and settings.get("weights") in _QUANTO_BITS:
        return _QUANTO_BITS[settings["weights"]]
    for bits in (4, 8):
        if isinstance(settings, Mapping) and settings.get(f"load_in_{bits}bit"):
            return bits
    raise ValueError("nothing is known of its quantization_config")


def _bits(kind: str) -> int:
    if kind not in _BITS:
        raise ValueError(f"nothing is known of the type {kind}")
    return _BITS[kind]


def _first(config: Mapping[str, Any], *names: str) -> int | None:
    """The first of these that is a number above zero."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and value > 0:
            return int(value)
    return None


def _needed(config: Mapping[str, Any], *names: str) -> int:
    value = _first(config, *names)
    if value is None:
        raise ValueError(f"its config.json does not say {names[0]}")
    return value
