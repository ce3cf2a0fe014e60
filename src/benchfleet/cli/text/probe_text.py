"""A capability report by a campaign's rules, and in words for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from benchfleet.campaign.base import Campaign
from benchfleet.domain.eligibility import default_eligibility
from benchfleet.domain.humanize import gigabytes
from benchfleet.machines.probe import report
from benchfleet.planner.forecast import recommended


def document(
    results: Mapping[str, Any], campaign: Campaign | None, *, hostname: str
) -> dict[str, Any]:
    """The report of a machine as of now, by the campaign's rules where there is one."""
    return report.build_report(
        results,
        campaign.eligibility if campaign else default_eligibility(),
        hostname=hostname,
        campaign=campaign.name if campaign else "",
        models=recommended(results, campaign, hostname=hostname),
        at=datetime.now(timezone.utc),
    )


def summary(document: Mapping[str, Any]) -> Iterator[str]:
    """The report for a person."""
    results, judged = document["results"], document["results"]["eligibility"]
    system, cpu, ram, disk = (results[name] for name in ("system", "cpu", "memory", "storage"))
    speed, llm = results["benchmark"], results["llm"]
    yield f"{document['hostname']}: {standing(judged)}"
    yield (
        f"system    {system['system']} {system['release']} {system['machine']}, "
        f"Python {system['python']}"
    )
    product = f"matrix product {_number(speed['gflops'])} GFLOP/s"
    if speed["gflops_by"] == "python":
        product = "matrix product not measured (numpy is not installed)"
    yield f"CPU       {cpu['name']}, {cpu['cores']} cores; {product}"
    yield (
        f"memory    {ram['total_gb']} GB, {ram['available_gb']} GB free; copies "
        f"{_rate(speed['memory_bandwidth'])}"
    )
    yield (
        f"disk      {disk['free_gb']} of {disk['total_gb']} GB free; writes "
        f"{_rate(speed['disk_write'])}, reads {_rate(speed['disk_read'])}"
    )
    yield from _gpus(results["gpu"], speed)
    packages = [f"{name} {version}" for name, version in results["software"]["packages"].items()]
    yield f"software  {', '.join(packages) or 'nothing that runs models'}"
    ollama = llm["ollama"]
    if ollama["answers"]:
        yield f"Ollama    {ollama['version']} at {ollama['url']}"
    models = [
        f"{one['name']} ({gigabytes(one['size'])})" for one in (*llm["hub"], *ollama["models"])
    ]
    yield f"models    {', '.join(models) or 'none found'}"
    links = [
        f"{name} {_rate(link['speed']) if link['speed'] else 'of unknown speed'}"
        for name, link in results["network"]["links"].items()
    ]
    yield f"network   {', '.join(links) or 'no link is up'}"
    rules = {name: holds for name, holds in judged.items() if isinstance(holds, bool)}
    yield f"may run   {', '.join(name for name, holds in rules.items() if holds) or 'nothing'}"
    for name, why in judged["why_not"].items():
        yield f"not       {name}: {why}"
    for kind, lines in (("advice", document["recommendations"]), ("warning", document["warnings"])):
        for line in lines:
            yield f"{kind:<9} {line}"


def standing(judged: Mapping[str, Any]) -> str:
    """``tier 3 · runs everything``; a tier of the campaign's own may have no role."""
    role = judged["recommended_role"]
    return f"tier {judged['machine_tier']}{f' · {role}' if role else ''}"


def _gpus(gpu: Mapping[str, Any], speed: Mapping[str, Any]) -> Iterator[str]:
    if not gpu["devices"]:
        yield f"GPU       {gpu['problem']}"
    for one in gpu["devices"]:
        health = "" if one["health"] == "good" else f"; {one['health']}"
        yield f"GPU {one['index']:<5} {one['name']}, {one['memory_gb']} GB{health}"
    if gpu["devices"]:
        product = f", matrix product {_number(speed['gpu_gflops'])} GFLOP/s"
        yield f"driver    {gpu['driver']}, CUDA {gpu['cuda'] or 'unknown'}{product}"


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _rate(value: float | None) -> str:
    if not value:
        return "? MB/s"
    return f"{value / 1e9:.1f} GB/s" if value >= 1e9 else f"{value / 1e6:.0f} MB/s"
