"""The example study: two models, four attention configs, LongBench and a mock benchmark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import User

EXAMPLE = Path(__file__).parents[2] / "examples" / "attention_study"


def _python(user: User, script: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLE / script, user.folder],
        env={**user.environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(2000)  # it has 32 cells of real models
def test_the_study_runs_all_its_cells_and_then_reuses_them(user: User) -> None:
    _python(user, "stand_ins.py")
    scores = [line for line in _python(user, "study.py").splitlines() if "score" in line]
    assert len(scores) == 32
    assert not any("reused" in line for line in scores)
    density: dict[str, list[float]] = {}
    for file in user.folder.glob("sparse_attention_comparison/*/*/longbench_*/cell.json"):
        cell = json.loads(file.read_text())
        density.setdefault(file.parts[-3], []).append(cell["metrics"]["density"])
    assert {name: len(values) for name, values in density.items()} == {
        "dense": 6,
        "streaming": 6,
        "hash_attention": 6,
        "sink_local": 6,
    }
    assert set(density.pop("dense")) == {1.0}
    # 128 of at least 600 keys, whichever config chooses them
    assert all(0 < each < 0.3 for values in density.values() for each in values)
    again = [line for line in _python(user, "study.py").splitlines() if "score" in line]
    assert all(line.endswith("reused") for line in again)
    assert sorted(line.removesuffix(", reused") for line in again) == sorted(scores)
