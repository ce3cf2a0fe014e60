"""A campaign of scripts or callables of your own, run by the installed command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from benchfleet.campaign.load import load_campaign


class Study:
    """A campaign file in a folder of its own, with its scripts and modules.

    Its file begins with `head`, behind which the benchmarks stand; it has one model, ``dense``.
    """

    def __init__(self, folder: Path, head: str) -> None:
        folder.mkdir()
        self.folder, self.head = folder, head
        self.file = folder / "study.yaml"
        self.results = folder / "benchmark_results" / "study"

    def write(self, benchmarks: str, head: str = "") -> None:
        below = textwrap.indent(textwrap.dedent(benchmarks), "    ")
        self.file.write_text((head or self.head) + below)

    def script(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(textwrap.dedent(text))

    def run(self, *words: str, code: int = 0) -> str:
        """Run it from another folder, and return its output."""
        done = subprocess.run(
            [sys.executable, "-m", "benchfleet", "run", str(self.file), "--cpu-slots", "1", *words],
            cwd=self.folder.parent,
            env={**os.environ, "XDG_CACHE_HOME": str(self.folder / ".cache")},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def text(self, place: str) -> str:
        """A file of the model's results."""
        (dense,) = self.results.glob("[!.]*/dense")
        return (dense / place).read_text()

    def result(self, place: str) -> Any:
        return json.loads(self.text(place))

    def failures(self) -> dict[str, dict[str, Any]]:
        """By the benchmark's name, and its subset."""
        cells = {str(c.fingerprint): c for c in load_campaign(self.file).matrix.expand()}
        return {
            cells[file.parts[-3]].workload.label: json.loads(file.read_text())
            for file in (self.results / ".attempts").rglob("failure.json")
        }
