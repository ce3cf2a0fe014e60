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
from benchfleet.errors import PluginError, wrong_option


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
    return 0


def _described(name: str) -> dict[str, Any]:
    try:
        config = registry.load("attention", name)
    except PluginError as error:
        return {"name": name, "parameters": {}, "description": str(error), "fast": False}
    parameters = {
        field.name: None if field.default is MISSING else str(field.default)
        for field in fields(config)
    }
    summary = (config.__doc__ or "").partition("\n\n")[0]
    return {
        "name": name,
        "parameters": parameters,
        "description": " ".join(summary.split()),
        "fast": config.has_fast_form,
    }
