"""Everything at once: a campaign is tormented for a while, and what must hold still holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MINUTES = 1 / 4  # `make soak` does it for hours


@pytest.mark.timeout(1200)
def test_a_tormented_campaign_ends_as_if_it_had_been_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "acts.json"
    words = ["--minutes", f"{MINUTES}", "--seed", "20", "--results", f"{tmp_path}/rounds"]
    done = subprocess.run(
        [sys.executable, "-m", "chaos.torment", *words, "--json", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1100,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stdout
    output = json.loads(log.read_text())
    assert output["seed"] == 20
    assert {"round", "start", "peace"} <= {act["act"] for act in output["acts"]}
    assert not list((tmp_path / "rounds").glob("round-*"))
