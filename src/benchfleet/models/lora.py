"""LoRA adapters of PEFT, switched on the weights of a loaded model of transformers."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Model
from benchfleet.environment import own_cache
from benchfleet.errors import CellFailure
from benchfleet.models.digest import cached_file_digest

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PROBE_TOKENS = 16


def lora_digest(folder: str) -> str:
    """The digest of an adapter's settings and weights. Raises ValueError with what to do."""
    config, weights = Path(folder, _CONFIG), Path(folder, _WEIGHTS)
    for file in (config, weights):
        if not file.is_file():
            raise ValueError(
                f"{folder} holds no {file.name}; name a folder that PEFT saved as safetensors"
            )
    try:
        kind = json.loads(config.read_text("utf-8")).get("peft_type")
    except (ValueError, AttributeError, OSError) as error:
        raise ValueError(f"{config} cannot be read: {error}") from error
    if kind != "LORA":
        raise ValueError(f"{folder} holds a PEFT adapter of type {kind}; only LORA is supported")
    cache = own_cache(os.environ) / "digests"
    return content_digest([cached_file_digest(file, cache=cache) for file in (config, weights)])


def check_unchanged(declared: Model) -> None:
    """Raise ValueError if the adapter is another than when the campaign was read."""
    if lora_digest(declared.lora) != declared.lora_digest:
        raise ValueError(f"{declared.lora} changed since the campaign was read; run again")


def not_applied(declared: Model) -> CellFailure:
    """The failure of an adapter whose logits are those of its base."""
    return CellFailure(
        stage="load",
        kind="lora_not_applied",
        message=f"the LoRA adapter {declared.lora} changes no logits of its base; check "
        "that it was trained, and for this base",
    )


def lora_rank(folder: str) -> int:
    """The largest rank of an adapter's matrices. Raises ValueError for a folder without one."""
    lora_digest(folder)
    settings = json.loads(Path(folder, _CONFIG).read_text("utf-8"))
    return max(
        [int(settings.get("r") or 8), *map(int, (settings.get("rank_pattern") or {}).values())]
    )


class LoraSwitch:
    """The LoRA adapters that a loaded model holds, of which one or none is active."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of those in memory, by digest

    @property
    def was_used(self) -> bool:
        """Whether the model holds any."""
        return bool(self._names)

    def switch(self, model: Any, declared: Model) -> None:
        """Activate the adapter of the declared model; none for a model without one.

        Raises CellFailure `lora_not_applied` if the logits stay those of the base, ValueError
        where the adapter is another than declared or does not fit, and `missing_extra`
        without PEFT.
        """
        if self._names:
            model.disable_adapters()
        if not declared.lora_digest:
            return
        if find_spec("peft") is None:
            message = "LoRA adapters need peft; pip install 'benchfleet[lora]'"
            raise CellFailure(stage="load", kind="missing_extra", message=message)
        check_unchanged(declared)
        base = _logits(model)
        self._activate(model, declared)
        if _equal(base, _logits(model)):
            model.disable_adapters()
            raise not_applied(declared)

    def _activate(self, model: Any, declared: Model) -> None:
        name = self._names.get(declared.lora_digest)
        if name is None:
            name = f"lora_{declared.lora_digest[:16]}"
            model.load_adapter(declared.lora, adapter_name=name, hotswap=False)
            self._names[declared.lora_digest] = name
        model.enable_adapters()
        model.set_adapter(name)
        model.eval()


def _logits(model: Any) -> Any:
    """The logits of a few tokens from all over the vocabulary."""
    import torch

    embeddings = model.get_input_embeddings().weight
    step = max(1, embeddings.shape[0] // _PROBE_TOKENS)
    ids = torch.arange(0, embeddings.shape[0], step, device=embeddings.device)[:_PROBE_TOKENS]
    with torch.inference_mode():
        return model(input_ids=ids[None], use_cache=False).logits


def _equal(one: Any, other: Any) -> bool:
    import torch

    return bool(torch.equal(one, other))
