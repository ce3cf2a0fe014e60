"""The built wheel, alone in an empty environment, runs the mock campaign without extras."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CAMPAIGN = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [mock_benchmark]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, check=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_the_sql_and_nothing_of_the_repository(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith(".sql") for name in names)
    assert "benchfleet/py.typed" in names
    assert all(name.startswith(("benchfleet/", "benchfleet-")) for name in names)


def test_the_wheel_alone_runs_the_mock_campaign(wheel: Path, tmp_path: Path) -> None:
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
