"""Studies and machines as people have them at home and at work: drawn by a seed, which repeats one.

The machines are those of capability reports, the study a campaign's file; sizes are those of models
that people use, and times are what a plan makes of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchfleet.campaign.base import Campaign
from benchfleet.campaign.load import load_campaign
from benchfleet.domain.cell import Cell
from benchfleet.machines.probe import report
from benchfleet.machines.probe.report import Capability
from benchfleet.planner.assign import Assigner
from capabilities import BOARD, BOX, DESKTOP, LAPTOP, reported, results

_WIFI, _CABLE, _FAST = 40e6, 125e6, 1250e6  # bytes a second
_SIZES = {  # GB at 16 bits
    "qwen-0.5b": 1.0,
    "llama-1b": 2.5,
    "r1-1.5b": 3.6,
    "gemma-2b": 5.2,
    "phi-3.8b": 7.6,
    "mistral-7b": 14.5,
    "llama-8b": 16.1,
    "phi-14b": 29.3,
    "r1-32b": 65.5,
    "llama-70b": 141.0,
}
_FORMS = {"q8": 0.53, "q4": 0.3}  # of the size
_SAMPLES = (20, 50, 100, 164, 500, 1000)
_ANSWERS = (8, 32, 64, 256, 512)  # tokens
_THREE = {"board": BOARD, "laptop": LAPTOP, "desktop": DESKTOP}  # as in the guide for homes


def _home(random: Random) -> dict[str, Any]:
    """A machine of some home or office."""

    def near(value: float) -> float:
        return value * random.uniform(0.8, 1.25)

    kind = random.choices(
        ("board", "laptop", "desktop", "mini", "gaming", "two", "studio"),
        weights=(2, 4, 3, 2, 3, 1, 1),
    )[0]
    link = random.choice((_WIFI, _CABLE, _CABLE))
    drawn: dict[str, dict[str, Any]] = {
        "board": {"ram": 8, "free": 6.5, "cores": 4, "gflops": 12, "bandwidth": 4, "read": 80e6},
        "laptop": {"ram": 8.2, "free": near(5.5), "cores": 4, "gflops": 90, "bandwidth": 9},
        "desktop": {"ram": 16.6, "free": near(12), "cores": 8, "gflops": 400, "bandwidth": 22},
        "mini": {"ram": 33, "free": near(26), "cores": 8, "gflops": 500, "bandwidth": 35},
        "gaming": {"ram": 33, "free": 25, "cores": 16, "gflops": 900, "bandwidth": 40, "gpus": 1,
                   "vram": random.choice((8.5, 12.9, 17.1, 25.7)), "gpu_gflops": near(70_000),
                   "gpu_bandwidth": near(500)},
        "two": {"ram": 66, "free": 50, "cores": 24, "gflops": 1200, "bandwidth": 60, "gpus": 2,
                "vram": 25.7, "gpu_gflops": near(120_000), "gpu_bandwidth": near(900)},
        "studio": {"ram": 66, "free": 55, "cores": 12, "gflops": 1500, "bandwidth": 200},
    }  # fmt: skip
    chosen = drawn[kind]
    for name in ("gflops", "bandwidth"):
        chosen[name] = near(chosen[name])
    return results(disk=200, link=link, **{"read": near(500e6), **chosen})


def machines(random: Random) -> list[Capability]:
    """The three of the guide, these with the box, or 3 to 8 of some lab."""
    kind = random.choices(("three", "box", "lab"), weights=(1, 1, 3))[0]
    found: dict[str, dict[str, Any]] = dict(_THREE)
    if kind == "box":
        found["box"] = BOX
    if kind == "lab":
        found = {f"lab{number}": _home(random) for number in range(1, random.randint(3, 8) + 1)}
    output = [(reported(name, one), name) for name, one in found.items()]
    return report.newest(output)


def study(random: Random, *, cells: int, largest: float) -> str:
    """A campaign's file of about so many cells; models are of `largest` GB at most."""
    fitting = [name for name, size in _SIZES.items() if size * _FORMS["q4"] < largest]
    models = random.sample(fitting, min(len(fitting), random.randint(1, 5)))
    configs = random.choice((1, 1, 2, 3, 4))
    repeats = random.choice((1, 1, 2, 3, 5))
    each = len(models) * configs * repeats
    while each > cells and repeats > 1:
        each, repeats = each // repeats, 1
    subsets = max(1, round(cells / each))
    lines = [
        "campaign: study",
        f"defaults: {{adapter: mock, repeats: {repeats}}}",
        "matrix:",
        "  models:",
    ]
    for name in models:
        size = _SIZES[name]
        forms = [
            f"{{name: {name}-{form}, size: {size * part:.2f}GB}}"
            for form, part in _FORMS.items()
            if random.random() < 0.7
        ]
        more = f", variants: [{', '.join(forms)}]" if forms else ""
        lines.append(f"    - {{name: {name}, size: {size}GB{more}}}")
    lines += ["  configs:", "    dense: null"]
    lines += [
        f"    sink-{n}: {{attention: [{{sink: {n}}}, {{local: 64}}]}}" for n in range(1, configs)
    ]
    lines.append("  benchmarks:")
    length = 100
    while subsets:
        here = min(subsets, random.randint(1, 4))
        subsets -= here
        names = [length + n for n in range(here)]
        length += here
        lines.append(
            f"    - recall: {{subsets: {names}, samples: {random.choice(_SAMPLES)}, "
            f"generation: {{max_new_tokens: {random.choice(_ANSWERS)}}}, "
            f"batch_size: {random.choice((1, 1, 4, 8))}}}"
        )
    return "\n".join(lines) + "\n"


def lab(seed: int, *, cells: int, folder: Path) -> tuple[Campaign, Sequence[Capability]]:
    """A study and the machines for it."""
    random = Random(f"lab {cells} {seed}")
    found = machines(random)
    largest = max(
        max([gpu.memory for gpu in one.gpus], default=one.number("ram_available")) for one in found
    )
    file = folder / f"lab-{cells}-{seed}.yaml"
    file.write_text(study(random, cells=cells, largest=largest / 1.3e9), "utf-8")
    return load_campaign(file), found


def assigner(seed: int, *, cells: int, folder: Path) -> tuple[Assigner, Sequence[Cell]]:
    """What plans it, with an empty ledger; and the cells."""
    campaign, found = lab(seed, cells=cells, folder=folder)
    return Assigner(campaign, found, []), list(campaign.matrix.expand())
