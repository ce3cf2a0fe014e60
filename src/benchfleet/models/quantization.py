"""Quantised weights: the package that each method of transformers needs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchfleet.errors import CellFailure

_PACKAGES: Mapping[str, str] = {
    "awq": "gptqmodel",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "gptq": "gptqmodel",
    "hqq": "hqq",
    "quanto": "optimum-quanto",
    "torchao": "torchao",
}


def check_quantization(config: Mapping[str, Any]) -> None:
    """Raise CellFailure where this host lacks the package of a config.json's, or a model's kwargs',
    ``quantization_config``."""
    settings = config.get("quantization_config")
    if not isinstance(settings, Mapping):
        return
    in_bits = settings.get("load_in_8bit") or settings.get("load_in_4bit")
    method = str(settings.get("quant_method") or ("bitsandbytes" if in_bits else ""))
    if (package := _PACKAGES.get(method)) is None:
        return
    try:
        version(package)
    except PackageNotFoundError:
        extra = "'benchfleet[quantization]'" if package == "bitsandbytes" else package
        raise CellFailure(
            stage="load",
            kind="missing_extra",
            message=f"quantization by {method} needs {package}, which is not installed here;"
            f" pip install {extra}, or leave the config out",
        ) from None
