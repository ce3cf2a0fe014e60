"""The package as others install it: reproducible, whole, and useful without any extra."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "benchfleet"
MODEL = ROOT / "examples" / "recall" / "model"
BUILD = (
    "import sys; from hatchling.build import build_sdist, build_wheel;"
    " build_wheel(sys.argv[1]); build_sdist(sys.argv[1])"
)
CAMPAIGN = "campaign: study\nmatrix:\n  models: [{}]\n  benchmarks: [{}]\n"
MOCK = "{name: m1, adapter: mock}"

# For each extra, what asks for it: a model and a benchmark to plan, or else a command.
PLANS = {
    "benchmarks": (MOCK, "ifeval"),
    "hf": (f"{{name: m1, path: {MODEL}}}", "mock_benchmark"),
    "inspect": (MOCK, "inspect: {tasks: [task.py]}"),
    "llama-cpp": (f"{{name: m1, adapter: llama_cpp_offline, path: {MODEL}}}", "mock_benchmark"),
    "lm-eval": (MOCK, "lm_eval: {tasks: [gsm8k]}"),
    "serving": ("{name: m1, adapter: openai, url: 'http://127.0.0.1:1/v1'}", "mock_benchmark"),
    "vllm": (f"{{name: m1, adapter: vllm_offline, path: {MODEL}}}", "mock_benchmark"),
}
COMMANDS = {
    **{extra: f"plan {extra}.yaml" for extra in PLANS},
    "completion": "completion bash",
    "dashboard": "dashboard campaign.yaml",
    "hub": "export campaign.yaml --to hub_dataset",
    "metrics": "run campaign.yaml --limit 2 --metrics-port 0",
    "mlflow": "export campaign.yaml --to mlflow",
    "notify": "run notify.yaml",
    "postgres": "status campaign.yaml --ledger postgresql://me@127.0.0.1:1/bench",
    "ray": "run campaign.yaml --limit 3 --engine ray",
    "rent": "offers --gpu RTX4090 --machines rent.yaml",
    "report": "report campaign.yaml --format png",
    "storage": "plan storage.yaml",
    "wandb": "export campaign.yaml --to wandb",
}
ELSEWHERE = {
    "all": "a list of others",
    "dev": "for those who change benchfleet",
    "docs": "for `make docs`",
    "lora": "needs hf first; tests/unit/models/test_missing_extras.py",
    "plan": "the plan says so, and is made without it",
    "quantization": "needs hf first; tests/unit/models/test_missing_extras.py",
    "testing": "named by importing benchfleet.testing, below",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    return _build(tmp_path_factory.mktemp("dist"))


def _build(folder: Path, source: Path = ROOT) -> Path:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    words = [sys.executable, "-c", BUILD, str(folder)]
    subprocess.run(words, cwd=source, env=environment, check=True)
    return folder


def _digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_two_builds_are_equal_and_hold_every_file_of_the_package(
    built: Path, tmp_path: Path
) -> None:
    assert _digests(_build(tmp_path / "again")) == _digests(built)
    (wheel,), (archive,) = built.glob("*.whl"), built.glob("*.tar.gz")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = (file for file in PACKAGE.rglob("*") if file.is_file() and file.suffix != ".pyc")
    assert packed == {file.relative_to(PACKAGE.parent).as_posix() for file in files}
    with tarfile.open(archive) as members:
        members.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("benchfleet-*")
    from_source = _digests(_build(tmp_path / "from source", source))
    assert from_source[wheel.name] == _digests(built)[wheel.name]


class Installed:
    """The wheel in an environment that has nothing else, and a folder with a finished campaign."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder / "study"
        self.folder.mkdir()
        self.programs = folder / "empty" / "bin"
        subprocess.run([sys.executable, "-m", "venv", str(folder / "empty")], check=True)
        pip = [str(self.programs / "python"), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)

    def run(self, *words: str, program: str = "benchfleet") -> subprocess.CompletedProcess[str]:
        """The finished command, run in the folder without the variables of this checkout."""
        return subprocess.run(
            [str(self.programs / program), *words],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "ADDRESSES": "json://127.0.0.1",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def write_campaigns(self) -> None:
        """Write the files that the walk through the extras names."""
        mock = CAMPAIGN.format(MOCK, "mock_benchmark")
        files = {
            **{f"{extra}.yaml": CAMPAIGN.format(*plan) for extra, plan in PLANS.items()},
            "notify.yaml": mock + "notify: {to: env:ADDRESSES}\n",
            "storage.yaml": mock + "results: s3://bucket/prefix\n",
            "rent.yaml": "providers:\n  vast: {key: env:ADDRESSES}\n",
        }
        for name, text in files.items():
            (self.folder / name).write_text(text)


def test_alone_it_runs_a_first_campaign_and_names_each_missing_extra(
    built: Path, tmp_path: Path
) -> None:
    (wheel,) = built.glob("*.whl")
    installed = Installed(tmp_path, wheel)
    for first in (["init"], ["run", "campaign.yaml"], ["report", "campaign.yaml"]):
        done = installed.run(*first)
        assert done.returncode == 0, done.stderr
    assert "torch" not in installed.run("-m", "pip", "list", program="python").stdout
    cells = [*installed.folder.glob("benchmark_results/campaign/*/*/*/cell.json")]
    assert len(cells) == 3
    installed.write_campaigns()
    for extra, words in COMMANDS.items():
        done = installed.run(*words.split())
        assert done.returncode == 2, (words, done.stdout)
        assert f"pip install 'benchfleet[{extra}]'" in done.stderr
        assert "Traceback" not in done.stderr
    done = installed.run("-c", "import benchfleet.testing", program="python")
    assert "pip install 'benchfleet[testing]'" in done.stderr


def test_the_walk_through_the_extras_knows_each(built: Path) -> None:
    (wheel,) = (zipfile.ZipFile(file) for file in built.glob("*.whl"))
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    extras = re.findall(r"^Provides-Extra: (.+)$", wheel.read(name).decode(), re.MULTILINE)
    assert set(extras) == {*COMMANDS, *ELSEWHERE}
