"""Capability reports of machines that are not here: a board, a laptop, a desktop and a box."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from benchfleet.domain.eligibility import Eligibility, default_eligibility
from benchfleet.machines.probe import report


def results(
    *,
    ram: float,
    free: float,
    disk: float,
    cores: int,
    gflops: float,
    bandwidth: float,
    gpus: int = 0,
    vram: float = 80,
    gpu_gflops: float = 600_000,
    gpu_bandwidth: float = 3000,
    read: float = 500e6,
    link: float = 125e6,
    models: Sequence[tuple[str, int]] = (),
) -> dict[str, Any]:
    """What was found on a machine; sizes in GB, rates as reports have them."""
    gb = 10**9
    return {
        "system": {
            "hostname": "it",
            "system": "Linux",
            "release": "6.1",
            "machine": "x86_64",
            "platform": "Linux-6.1",
            "python": "3.11.2",
        },
        "cpu": {
            "name": "a processor",
            "cores": cores,
            "physical_cores": cores,
            "frequency_mhz": 1800,
            "load": 0.1,
        },
        "memory": {
            "total": round(ram * gb),
            "available": round(free * gb),
            "total_gb": ram,
            "available_gb": free,
            "swap": 0,
        },
        "storage": {
            "folder": "/home",
            "total": int(4 * disk * gb),
            "free": int(disk * gb),
            "total_gb": 4 * disk,
            "free_gb": disk,
        },
        "gpu": {
            "driver": "550.54.15" if gpus else "",
            "cuda": "12.4" if gpus else "",
            "problem": "" if gpus else "this machine has no NVIDIA GPU",
            "devices": [
                {
                    "index": index,
                    "name": "NVIDIA H100",
                    "uuid": f"GPU-{index}",
                    "memory": int(vram * gb),
                    "free": int(vram * gb),
                    "memory_gb": vram,
                    "health": "good",
                    "temperature": 30,
                    "utilisation": 0,
                    "power": 70.0,
                    "uncorrected_errors": 0,
                    "split": False,
                    "processes": [],
                }
                for index in range(gpus)
            ],
        },
        "software": {"packages": {"torch": "2.13.0"}, "programs": {"git": "/usr/bin/git"}},
        "llm": {
            "hub": [{"name": name, "size": size} for name, size in models],
            "ollama": {
                "url": "http://127.0.0.1:11434",
                "answers": False,
                "why": "refused",
                "version": "",
                "models": [],
            },
        },
        "network": {"links": {"eth0": {"speed": int(link)}}, "speed": int(link)},
        "benchmark": {
            "memory_bandwidth": bandwidth * gb,
            "gflops": gflops,
            "gflops_by": "numpy",
            "gpu_gflops": gpu_gflops if gpus else None,
            "gpu_bandwidth": gpu_bandwidth * gb if gpus else None,
            "disk_write": 200e6,
            "disk_read": read,
            "notes": [],
            "quick": False,
            "seconds": 8.0,
        },
    }


def reported(
    hostname: str, found: dict[str, Any], rules: Eligibility | None = None
) -> dict[str, Any]:
    """The report of a machine where that was found."""
    return report.build_report(
        found,
        rules or default_eligibility(),
        hostname=hostname,
        campaign="",
        models=[],
        at=datetime(2026, 3, 1, tzinfo=timezone.utc),
    )


BOARD = results(ram=4, free=3.4, disk=20, cores=4, gflops=8, bandwidth=3)
LAPTOP = results(ram=8.2, free=6.6, disk=60, cores=4, gflops=90, bandwidth=9)
DESKTOP = results(ram=16.6, free=13.5, disk=300, cores=8, gflops=400, bandwidth=22)
BOX = results(ram=1080, free=1010, disk=3000, cores=192, gflops=4000, bandwidth=150, gpus=8)


def fleet() -> list[dict[str, Any]]:
    """The reports of all four."""
    machines = {"board": BOARD, "laptop": LAPTOP, "desktop": DESKTOP, "box": BOX}
    return [reported(name, found) for name, found in machines.items()]
