"""What a report says of a machine in words: what to do with it, and what to beware of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

GOOD = "good"  # the health of a GPU that can be used


def recommendations(results: Mapping[str, Any], models: Sequence[str]) -> Iterator[str]:
    """What to do with the machine, and what to bring there."""
    if models:
        yield f"models that fit: {', '.join(models)}"
    packages = results["software"]["packages"]
    if results["gpu"]["devices"] and "torch" not in packages:
        yield "install torch to use its GPUs: pip install 'benchfleet[hf]'"
    if not ({"transformers", "vllm", "llama_cpp"} & set(packages) or _answers(results)):
        yield "install something that runs models: pip install 'benchfleet[hf]', or Ollama"
    if "ollama" in results["software"]["programs"] and not _answers(results):
        yield "start its Ollama server: ollama serve"


def _answers(results: Mapping[str, Any]) -> bool:
    return bool(results["llm"]["ollama"]["answers"])


def warnings(results: Mapping[str, Any]) -> Iterator[str]:
    """What keeps it from being used as a whole, or its measures from being trusted."""
    ram, disk, cpu = results["memory"], results["storage"], results["cpu"]
    if ram["available"] < 0.5 * ram["total"]:
        yield f"only {ram['available_gb']} of {ram['total_gb']} GB of memory are free: end programs"
    if disk["free"] < 10 * 10**9:
        yield f"only {disk['free_gb']} GB are free on the disk of {disk['folder']}"
    if cpu["load"] is not None and cpu["load"] > 0.5 * cpu["cores"]:
        yield f"it was busy while it was measured (load {cpu['load']}); measure again later"
    for gpu in results["gpu"]["devices"]:
        if gpu["health"] != GOOD:
            yield f"GPU {gpu['index']} cannot be used: {gpu['health']}"
        elif gpu["split"]:
            yield f"GPU {gpu['index']} is split into instances, which are not used"
        if gpu["processes"]:
            yield f"GPU {gpu['index']} is in use: {', '.join(gpu['processes'])}"
    yield from results["benchmark"]["notes"]
