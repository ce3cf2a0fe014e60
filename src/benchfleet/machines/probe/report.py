"""The capability report: one document, which readers of the short and of the rich form can read.

The short form has ``timestamp``, ``hostname``, ``system``, ``benchmark`` and ``capabilities``; the
rich one ``metadata``, ``results``, ``recommendations`` and ``warnings``. Sizes are bytes, and GB
(10⁹) where a key ends in ``_gb``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import benchfleet
from benchfleet.domain.conditions import Fact
from benchfleet.domain.eligibility import KINDS, Eligibility
from benchfleet.domain.names import path_part
from benchfleet.domain.resource import Device
from benchfleet.errors import BenchfleetError
from benchfleet.machines.probe.remarks import GOOD, recommendations, warnings

REPORT_VERSION = "2.0"
REPORT_PREFIX = "capability_report_"
_RULES = ("prerequisites", "e0_e1", "e2_full", "e2_quantized")  # keys that readers look for
_SPEEDS = ("gflops", "gpu_gflops", "gpu_bandwidth", "memory_bandwidth", "disk_write", "disk_read")
_NUMBERS = {  # what plans calculate with, by section
    "cpu": ("cores",),
    "memory": ("total", "available"),
    "storage": ("total", "free"),
    "network": ("speed",),
    "benchmark": _SPEEDS,
}
_MAX_REPORT_BYTES = 10_000_000  # bytes of a report


@dataclass(frozen=True, kw_only=True)
class Capability:
    """What a report says of a machine, as rules and plans take it."""

    hostname: str
    facts: Mapping[str, Fact]
    gpus: tuple[Device, ...] = ()  # those that are well and can be used whole
    models: Mapping[str, int] = field(default_factory=dict)  # those that lie there, with bytes
    gpu_bandwidth: float = 0.0  # bytes a second of a GPU's memory; 0: not measured
    gflops_by: str = ""  # what multiplied; numbers of another are not comparable
    at: str = ""  # when it was made, as it says

    def number(self, name: str) -> float:
        """A fact that is a number."""
        return float(self.facts[name])


def file_name(hostname: str) -> str:
    """``capability_report_<hostname>.json``."""
    return f"{REPORT_PREFIX}{path_part(hostname)}.json"


def build_report(
    results: Mapping[str, Any],
    eligibility: Eligibility,
    *,
    hostname: str,
    campaign: str,
    models: Sequence[str],
    at: datetime,
) -> dict[str, Any]:
    """The report of a machine where these `results` were found, by section; `models` are those
    that are recommended for it."""
    facts = facts_of(results, hostname)
    judged = eligibility.judge(facts)
    when = at.astimezone(timezone.utc).isoformat(timespec="seconds")
    system, ram, disk = results["system"], results["memory"], results["storage"]
    return {
        "timestamp": when,
        "hostname": hostname,
        "system": {
            **system,
            "cpu": results["cpu"]["name"],
            "cpu_count": results["cpu"]["cores"],
            "ram_total_gb": ram["total_gb"],
            "ram_available_gb": ram["available_gb"],
            "disk_free_gb": disk["free_gb"],
            "gpus": [gpu["name"] for gpu in results["gpu"]["devices"]],
        },
        "benchmark": results["benchmark"],
        "capabilities": {
            **dict.fromkeys(_RULES, False),
            **judged.holds,
            "model_recommendations": list(models),
        },
        "metadata": {
            "report_version": REPORT_VERSION,
            "generated_at": when,
            "benchfleet": benchfleet.__version__,
            "campaign": campaign,
        },
        "results": {
            **results,
            "eligibility": {
                **judged.holds,
                "why_not": dict(judged.why_not),
                "machine_tier": judged.tier,
                "recommended_role": judged.role,
            },
        },
        "recommendations": list(recommendations(results, models)),
        "warnings": list(warnings(results)),
    }


def facts_of(results: Mapping[str, Any], hostname: str) -> dict[str, Fact]:
    """The facts that rules speak of; what a report does not tell is 0, false or empty."""
    cpu, ram, disk = (_part(results, name) for name in ("cpu", "memory", "storage"))
    speed, software = _part(results, "benchmark"), _part(results, "software")
    packages = _part(software, "packages")
    gpus = _usable(results)
    memories = [gpu["memory"] for gpu in gpus]
    facts: dict[str, Any] = {
        "ram_total": ram.get("total"),
        "ram_available": ram.get("available"),
        "disk_total": disk.get("total"),
        "disk_free": disk.get("free"),
        "cores": cpu.get("cores"),
        "gpus": len(gpus),
        "vram": max(memories, default=0),
        "vram_free": max((gpu["free"] for gpu in gpus), default=0),
        "vram_total": sum(memories),
        "network": _part(results, "network").get("speed"),
        **{name: speed.get(name) for name in ("gflops", "gpu_gflops", "memory_bandwidth")},
        **{name: speed.get(name) for name in ("disk_write", "disk_read")},
        **{name: name in packages for name in ("torch", "transformers", "vllm", "llama_cpp")},
        "ollama": bool(_part(_part(results, "llm"), "ollama").get("answers")),
        "hostname": hostname,
        "system": _part(results, "system").get("system"),
        "machine": _part(results, "system").get("machine"),
    }
    nothing: Mapping[str, Fact] = {"truth": False, "text": "", "number": 0.0}
    return {name: facts.get(name) or nothing.get(kind, 0) for name, kind in KINDS.items()}


def write(folder: Path, report: Mapping[str, Any]) -> Path:
    """Put the report into `folder`, in place of an older one: all of it or nothing."""
    file = folder / file_name(str(report["hostname"]))
    draft = folder / f".{file.name}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        draft.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)
    return file


def read_files(paths: Sequence[Path]) -> list[tuple[Any, str]]:
    """The documents in these files and folders, each with where it is from; see `newest`.

    Raises BenchfleetError for a place without one, and for a file that cannot be read.
    """
    files: list[Path] = []
    for path in paths:
        matches = sorted(path.glob(f"{REPORT_PREFIX}*.json")) if path.is_dir() else [path]
        if not matches:
            raise BenchfleetError(
                f"{path} holds no {REPORT_PREFIX}*.json; `benchfleet probe` makes one"
            )
        files += matches
    documents = []
    for file in files:
        try:
            if file.stat().st_size > _MAX_REPORT_BYTES:
                raise ValueError("it is too large")
            documents.append((json.loads(file.read_text("utf-8")), str(file)))
        except FileNotFoundError:
            raise BenchfleetError(f"{file} not found; `benchfleet probe` makes reports") from None
        except OSError as error:
            raise BenchfleetError(f"{file} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise BenchfleetError(f"{file} is not a capability report: {error}") from None
    return documents


def newest(documents: Sequence[tuple[Any, str]]) -> list[Capability]:
    """Of each host the newest of these documents, each with where it is from; by host name.

    Raises BenchfleetError for one that is not a report."""
    newest_by_host: dict[str, Capability] = {}
    for one, origin in documents:
        read_one = read(one, origin)
        if (
            read_one.hostname not in newest_by_host
            or read_one.at >= newest_by_host[read_one.hostname].at
        ):
            newest_by_host[read_one.hostname] = read_one
    return [capability for _, capability in sorted(newest_by_host.items())]


def read(document: Any, origin: str) -> Capability:
    """A report of either form. Raises BenchfleetError, naming it as `origin`, where it is none."""
    if not isinstance(document, dict):
        raise BenchfleetError(f"{origin} is not a capability report: it holds no mapping")
    version = str(_part(document, "metadata").get("report_version") or REPORT_VERSION)
    if (form := version.partition(".")[0]).isdecimal() and int(form) > int(REPORT_VERSION[0]):
        raise BenchfleetError(
            f"{origin} is a report of version {version}, and benchfleet {benchfleet.__version__} "
            f"knows none after {REPORT_VERSION}; probe that machine again with this one"
        )
    results = dict(_part(document, "results")) or _rich(document)
    hostname = str(document.get("hostname") or _part(results, "system").get("hostname") or "")
    if not hostname:
        raise BenchfleetError(f"{origin} is an incomplete capability report: it names no hostname")
    try:
        path_part(hostname)
        _in_bytes(results)
        _check_numbers(results)
        facts = facts_of(results, hostname)
        gpus = tuple(
            Device(
                kind="gpu",
                index=int(gpu["index"]),
                name=str(gpu["name"]),
                memory=int(gpu["memory"]),
                host=hostname,
            )
            for gpu in _usable(results)
        )
        speed, llm = _part(results, "benchmark"), _part(results, "llm")
        listed = [*(llm.get("hub") or ()), *(_part(llm, "ollama").get("models") or ())]
        models = {str(one["name"]): int(one["size"]) for one in listed}
        bandwidth = float(speed.get("gpu_bandwidth") or 0)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise BenchfleetError(f"{origin} is an incomplete capability report: {error}") from None
    if not facts["ram_total"] or not facts["cores"]:
        raise BenchfleetError(
            f"{origin} tells no memory or no cores; make it by `benchfleet probe`"
        )
    return Capability(
        hostname=hostname,
        facts=facts,
        gpus=gpus,
        models=models,
        gpu_bandwidth=bandwidth,
        gflops_by=str(speed.get("gflops_by") or ""),
        at=str(document.get("timestamp") or _part(document, "metadata").get("generated_at") or ""),
    )


def _part(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = value.get(key)
    return section if isinstance(section, dict) else {}


def _rich(document: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of a report that has the short form alone."""
    system = _part(document, "system")
    return {
        "system": system,
        "cpu": {"cores": system.get("cpu_count")},
        "memory": {
            "total_gb": system.get("ram_total_gb"),
            "available_gb": system.get("ram_available_gb"),
        },
        "storage": {"free_gb": system.get("disk_free_gb")},
        "benchmark": _part(document, "benchmark"),
    }


def _in_bytes(results: dict[str, Any]) -> None:
    """Fill in bytes where the report has GB only."""
    for name in ("memory", "storage"):
        section = dict(_part(results, name))
        for key in ("total", "available", "free"):
            if section.get(key) is None and section.get(f"{key}_gb") is not None:
                section[key] = round(float(section[f"{key}_gb"]) * 1e9)
        if name == "memory" and section.get("available") is None:
            section["available"] = section.get("total")
        results[name] = section


def _check_numbers(results: Mapping[str, Any]) -> None:
    """Raise ValueError for a value that plans calculate with and that is no number of 0 or more."""
    for section, keys in _NUMBERS.items():
        for key in keys:
            value = _part(results, section).get(key)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (number and 0 <= value < math.inf):
                raise ValueError(
                    f"results.{section}.{key} is {value!r}; it must be a number of 0 or more"
                )


def _usable(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Its GPUs that are well and not split."""
    devices = _part(results, "gpu").get("devices") or ()
    return [gpu for gpu in devices if gpu.get("health") == GOOD and not gpu.get("split")]
