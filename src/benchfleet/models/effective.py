"""What a loaded model of transformers ran with, for the provenance of its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchfleet.models.architecture import sparse_layers
from benchfleet.models.loading import generation_settings


def effective(model: Any, *, own: str, ours: str, sparse: bool) -> Mapping[str, Any]:
    """Versions, dtype, devices, threads and attention. `own` is the implementation that it was
    loaded with, `ours` the one that decodes quicker where a model takes it."""
    import torch
    import transformers

    layers = sparse_layers(model.config.to_dict())
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "dtype": str(model.dtype).removeprefix("torch."),
        "devices": _devices_of(model),
        "threads": torch.get_num_threads(),
        "attn_implementation": own,
        "decoding": "benchfleet" if model.config._attn_implementation == ours else "transformers",
        **_quantization(model.config.to_dict()),
        **({"sparse_layers": "{} of {}".format(*layers)} if sparse else {}),
        "generation": generation_settings(model),
    }


def _quantization(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The method of its weights, as transformers calls it; empty for plain ones."""
    settings = config.get("quantization_config")
    method = settings.get("quant_method") if isinstance(settings, Mapping) else None
    return {"quantization": str(getattr(method, "value", method))} if method else {}


def _devices_of(model: Any) -> list[str]:
    """The names of the devices that its weights are on."""
    import torch

    devices = sorted({str(weight.device) for weight in model.parameters()})
    name = torch.cuda.get_device_name
    return [name(device) if device.startswith("cuda") else device for device in devices]
