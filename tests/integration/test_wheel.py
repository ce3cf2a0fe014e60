"""The built wheel, alone in an empty environment, runs the mock campaign without extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAMPAIGN = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [mock_benchmark]
"""


def test_the_wheel_alone_runs_the_mock_campaign(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "empty")], check=True)
    python = tmp_path / "empty" / "bin" / "python"
    constraints = str(ROOT / "constraints.txt")
    subprocess.run(
        [str(python), "-m", "pip", "install", "-q", "-c", constraints, str(wheel)], check=True
    )
    have = subprocess.run(
        [str(python), "-m", "pip", "list"], capture_output=True, text=True, check=True
    )
    assert "torch" not in have.stdout
    (tmp_path / "study.yaml").write_text(CAMPAIGN)
    run = subprocess.run(
        [str(tmp_path / "empty" / "bin" / "benchfleet"), "run", "study.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "benchmark_results/study/m1/dense/mock_benchmark/cell.json").exists()
