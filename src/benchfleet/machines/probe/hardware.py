"""What a machine has, as plain values: the hardware, and the programs that run models."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import urllib.request
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchfleet.domain.gpu import GpuState
from benchfleet.environment import hub_cache
from benchfleet.errors import DeviceError
from benchfleet.machines.devices import cores
from benchfleet.machines.free_memory import free_memory
from benchfleet.machines.nvml import open_nvml
from benchfleet.machines.probe.remarks import GOOD

_PACKAGES = {
    "torch": "torch",
    "transformers": "transformers",
    "vllm": "vllm",
    "llama_cpp": "llama-cpp-python",
    "lm_eval": "lm_eval",
    "numpy": "numpy",
    "ollama": "ollama",
}
_PROGRAMS = ("ollama", "vllm", "llama-server", "llama-cli", "nvidia-smi", "git", "rsync", "tmux")
_OLLAMA = "http://127.0.0.1:11434"
_SERVER_TIMEOUT_S = 1.0  # seconds for a server that is here or is not
_MAX_ANSWER_BYTES = 4_000_000  # bytes of its answer
_LOOPBACK = ("lo", "lo0")


def system() -> dict[str, Any]:
    """The operating system and the interpreter."""
    return {
        "hostname": socket.gethostname(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "platform": platform.platform(),
        "python": platform.python_version(),
    }


def cpu() -> dict[str, Any]:
    """The processor; frequencies in MHz, None where nothing tells."""
    import psutil

    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError, RuntimeError):
        frequency = None
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "name": _cpu_name(),
        "cores": cores(),
        "physical_cores": psutil.cpu_count(logical=False),
        "frequency_mhz": round(frequency.max or frequency.current) if frequency else None,
        "load": None if load is None else round(load, 2),
    }


def memory() -> dict[str, Any]:
    """RAM in bytes, of this machine or of the control group that it is held in, and the swap."""
    import psutil

    ram = free_memory(gpus=False)["cpu"]
    return {
        "total": ram.total,
        "available": ram.free,
        "total_gb": round(ram.total / 1e9, 1),
        "available_gb": round(ram.free / 1e9, 1),
        "swap": int(psutil.swap_memory().total),
    }


def storage(folder: Path) -> dict[str, Any]:
    """The disk that `folder` is on, or will be; bytes."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    disk = shutil.disk_usage(folder)
    return {
        "folder": str(folder),
        "total": disk.total,
        "free": disk.free,
        "total_gb": round(disk.total / 1e9, 1),
        "free_gb": round(disk.free / 1e9, 1),
    }


def gpus() -> dict[str, Any]:
    """Every GPU with its health, the driver and the CUDA that it speaks; or why there is none."""
    try:
        with open_nvml() as nvml:
            return {
                "driver": nvml.driver(),
                "cuda": nvml.cuda(),
                "devices": [_gpu(gpu) for gpu in nvml.gpus()],
                "problem": "",
            }
    except DeviceError as error:
        return {"driver": "", "cuda": "", "devices": [], "problem": str(error)}


def _gpu(gpu: GpuState) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "uuid": gpu.uuid,
        "memory": gpu.memory,
        "free": gpu.free,
        "memory_gb": round(gpu.memory / 1e9, 1),
        "health": gpu.fault or GOOD,
        "temperature": gpu.temperature,
        "utilisation": gpu.utilisation,
        "power": gpu.power,
        "uncorrected_errors": gpu.uncorrected,
        "split": gpu.mig,
        "processes": list(map(str, gpu.processes)),
    }


def software() -> dict[str, Any]:
    """Packages of this interpreter with their versions, and programs with their paths; nothing is
    imported or started for it."""
    packages = {}
    for name, package in _PACKAGES.items():
        try:
            packages[name] = version(package)
        except PackageNotFoundError:
            continue
    programs = {name: path for name in _PROGRAMS if (path := shutil.which(name))}
    return {"packages": packages, "programs": programs}


def models(environ: Mapping[str, str]) -> dict[str, Any]:
    """The models that lie here: those of the hub's cache, and those of an Ollama server that
    answers; sizes in bytes."""
    return {"hub": _hub_models(hub_cache(environ)), "ollama": ollama(environ)}


def _hub_models(cache: Path) -> list[dict[str, Any]]:
    """By their blobs alone, so that nothing large is read."""
    models = []
    try:
        folders = sorted(cache.glob("models--*"))
    except OSError:
        return []
    for folder in folders:
        try:
            size = sum(blob.stat().st_size for blob in (folder / "blobs").glob("*"))
        except OSError:
            continue
        name = folder.name.removeprefix("models--").replace("--", "/")
        models.append({"name": name, "size": size})
    return models


def ollama(environ: Mapping[str, str]) -> dict[str, Any]:
    """What the Ollama server at OLLAMA_HOST, or here, says of itself; its models only where it
    answers."""
    url = ollama_url(environ)
    try:
        answer = _get_json(f"{url}/api/version")
        listed = _get_json(f"{url}/api/tags").get("models") or []
        models = [
            {
                "name": str(one["name"]),
                "size": int(one.get("size") or 0),
                "parameters": str((one.get("details") or {}).get("parameter_size") or ""),
                "quantization": str((one.get("details") or {}).get("quantization_level") or ""),
            }
            for one in listed
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = getattr(error, "reason", None) or error
        return {"url": url, "answers": False, "why": str(why), "version": "", "models": []}
    version = str(answer.get("version", ""))
    return {"url": url, "answers": True, "why": "", "version": version, "models": models}


def ollama_url(environ: Mapping[str, str]) -> str:
    """Where the server is, by the rules of its own client."""
    address = environ.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not address:
        return _OLLAMA
    scheme, mark, rest = address.partition("://")
    if not mark:
        scheme, rest = "http", address
    host, colon, port = rest.rpartition(":")
    if not colon or "]" in port:
        host, port = rest, {"https": "443"}.get(scheme, "11434")
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"{scheme}://{host}:{port}"


def _get_json(url: str) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is not a web address")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, timeout=_SERVER_TIMEOUT_S) as response:
        value = json.loads(response.read(_MAX_ANSWER_BYTES))
    if not isinstance(value, dict):
        raise ValueError(f"{url} answers with no object")
    return value


def network() -> dict[str, Any]:
    """The links that are up with their speed in bytes a second, 0 if unknown."""
    import psutil

    links = {
        name: {"speed": state.speed * 125_000}  # reported in Mbit/s
        for name, state in psutil.net_if_stats().items()
        if state.isup and name not in _LOOPBACK
    }
    return {"links": links, "speed": max((link["speed"] for link in links.values()), default=0)}


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    for key in ("model name", "Model", "Hardware"):
        if fields.get(key):
            return fields[key]
    return platform.processor() or platform.machine()
