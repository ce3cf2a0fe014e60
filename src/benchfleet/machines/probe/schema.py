"""The JSON Schema of a capability report, for those who read one in another program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT = {"type": "string"}
_SIZE = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number", "minimum": 0}
_TRUTH = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_WHEN = {"type": "string", "format": "date-time"}


def _object(fields: Mapping[str, Any], *, more: Any = False) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": more,
    }


def _or_null(shape: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [shape, {"type": "null"}]}


def _several(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": _object(fields)}


_SYSTEM = dict.fromkeys(("hostname", "system", "release", "machine", "platform", "python"), _TEXT)
_RULES = ("prerequisites", "e0_e1", "e2_full", "e2_quantized")
_RATES = ("memory_bandwidth", "gflops", "gpu_gflops", "gpu_bandwidth", "disk_write", "disk_read")
_BENCHMARK = _object(
    {
        **dict.fromkeys(_RATES, _or_null(_NUMBER)),
        "gflops_by": {"enum": ["numpy", "python", ""]},
        "notes": _TEXTS,
        "quick": _TRUTH,
        "seconds": _NUMBER,
    }
)
_GPU = {
    "index": _SIZE,
    "name": _TEXT,
    "uuid": _TEXT,
    "memory": _SIZE,
    "free": _SIZE,
    "memory_gb": _NUMBER,
    "health": {"type": "string", "description": "good, or what is wrong with it"},
    "temperature": _or_null(_NUMBER),
    "utilisation": _or_null(_NUMBER),
    "power": _or_null(_NUMBER),
    "uncorrected_errors": _or_null(_SIZE),
    "split": _TRUTH,
    "processes": _TEXTS,
}
_MODEL = {"name": _TEXT, "size": _SIZE}
_RESULTS = {
    "system": _object(_SYSTEM),
    "cpu": _object(
        {
            "name": _TEXT,
            "cores": {"type": "integer", "minimum": 1},
            "physical_cores": _or_null(_SIZE),
            "frequency_mhz": _or_null(_NUMBER),
            "load": _or_null(_NUMBER),
        }
    ),
    "memory": _object(
        {
            "total": _SIZE,
            "available": _SIZE,
            "total_gb": _NUMBER,
            "available_gb": _NUMBER,
            "swap": _SIZE,
        }
    ),
    "storage": _object(
        {
            "folder": _TEXT,
            "total": _SIZE,
            "free": _SIZE,
            "total_gb": _NUMBER,
            "free_gb": _NUMBER,
        }
    ),
    "gpu": _object({"driver": _TEXT, "cuda": _TEXT, "devices": _several(_GPU), "problem": _TEXT}),
    "software": _object({"packages": _object({}, more=_TEXT), "programs": _object({}, more=_TEXT)}),
    "llm": _object(
        {
            "hub": _several(_MODEL),
            "ollama": _object(
                {
                    "url": _TEXT,
                    "answers": _TRUTH,
                    "why": _TEXT,
                    "version": _TEXT,
                    "models": _several({**_MODEL, "parameters": _TEXT, "quantization": _TEXT}),
                }
            ),
        }
    ),
    "network": _object({"links": _object({}, more=_object({"speed": _SIZE})), "speed": _SIZE}),
    "benchmark": _BENCHMARK,
    "eligibility": _object(
        {
            "why_not": _object({}, more=_TEXT),
            "machine_tier": _SIZE,
            "recommended_role": _TEXT,
        },
        more=_TRUTH,
    ),
}


def report_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12. Sizes are bytes, rates bytes or 10⁹ operations a second."""
    system = {
        **_SYSTEM,
        "cpu": _TEXT,
        "cpu_count": _SIZE,
        "ram_total_gb": _NUMBER,
        "ram_available_gb": _NUMBER,
        "disk_free_gb": _NUMBER,
        "gpus": _TEXTS,
    }
    capabilities = {**dict.fromkeys(_RULES, _TRUTH), "model_recommendations": _TEXTS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "benchfleet capability report",
        **_object(
            {
                "timestamp": _WHEN,
                "hostname": {"type": "string", "minLength": 1},
                "system": _object(system),
                "benchmark": _BENCHMARK,
                "capabilities": _object(capabilities, more=_TRUTH),
                "metadata": _object(
                    {
                        "report_version": _TEXT,
                        "generated_at": _WHEN,
                        "benchfleet": _TEXT,
                        "campaign": _TEXT,
                    }
                ),
                "results": _object(_RESULTS),
                "recommendations": _TEXTS,
                "warnings": _TEXTS,
            }
        ),
    }
