"""``benchfleet attention``: the attention configs that a campaign may name."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from benchfleet import registry
from benchfleet.errors import wrong_option


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = "example: benchfleet attention --convert weights.pkl weights.safetensors"
    parser.add_argument(
        "--convert",
        nargs=2,
        metavar=("PICKLE", "SAFETENSORS"),
        type=Path,
        help="write weights of hash_attention as safetensors, without running code of the pickle",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """List the configs with their parameters, or convert a file."""
    if arguments.convert:
        words = [sys.executable, "-m", "benchfleet.models.attention.convert", *arguments.convert]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise wrong_option("--convert", done.stderr.strip().splitlines()[-1])
        print(done.stdout.strip())
        return 0
    configs = [_described(name) for name in registry.names("attention")]
    if arguments.json:
        print(json.dumps(configs, indent=2))
        return 0
    for config in configs:
        parameters = ", ".join(
            name if value is None else f"{name}={value}"
            for name, value in config["parameters"].items()
        )
        print(f"{config['name']}({parameters})")
        print(f"    {config['description']}")
        if config["problem"]:
            print(f"    missing: {config['problem']}")
        else:
            print(f"    example: {config['example']}")
    return 0


def _described(name: str) -> dict[str, Any]:
    info = registry.info("attention", name)
    config = info.plugin
    if config is None:
        parts = {"parameters": {}, "description": "", "fast": False, "example": ""}
        return {"name": name, **parts, "problem": info.problem}
    parameters = {
        field.name: None if field.default is MISSING else str(field.default)
        for field in fields(config)
    }
    return {
        "name": name,
        "parameters": parameters,
        "description": info.summary,
        "fast": config.has_fast_form,
        "example": _example(name, parameters),
        "problem": info.problem,
    }


_VALUES = {"weights": "weights.safetensors", "sorted_channel_file": "channels.json"}
_SIZES = {"top_p": "0.9", "epsilon": "0.1", "delta": "0.1", "rate": "0.1", "base_rate": "0.1"}


def _example(name: str, parameters: dict[str, Any]) -> str:
    """An entry of ``configs`` with the parameters that have no default."""
    required = [parameter for parameter, default in parameters.items() if default is None]
    values = {one: {**_VALUES, **_SIZES}.get(one, "64") for one in required}
    if not values:
        return f"{name}: {{attention: {name}}}" if name != "dense" else "dense: null"
    if len(values) == 1:
        return f"{name}: {{attention: {{{name}: {next(iter(values.values()))}}}}}"
    listed = ", ".join(f"{one}: {value}" for one, value in values.items())
    return f"{name}: {{attention: {{{name}: {{{listed}}}}}}}"
