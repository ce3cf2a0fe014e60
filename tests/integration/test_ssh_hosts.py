"""Cells on a host that sees none of our files: all they need is sent, what they make comes back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netns import Machine, Machines, machines
from stand_in_servers import llama_server

EXAMPLES = Path(__file__).parents[2] / "examples" / "recall"


@pytest.fixture
def lan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Makes hosts in namespaces of their own, and takes them away."""
    with machines(tmp_path_factory.mktemp) as made:
        yield made


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """The campaign's folder, which no host sees."""
    folder = tmp_path / "my study"
    folder.mkdir()
    return folder


def run(study: Path, campaign: str, machine: Machine, *, code: int = 0, **output: Any) -> str:
    """Run the campaign on the host alone."""
    (study / "study.yaml").write_text(textwrap.dedent(campaign))
    host = machine.host(cpu_slots=1)
    entry = {name: getattr(host, name) for name in ("address", "user", "identity", "python")}
    hosts = {host.name: {**entry, "folder": host.folder, "cpu_slots": 1, **output}}
    (study / "machines.json").write_text(json.dumps({"hosts": hosts}))
    words = ["run", "study.yaml", "--machines", "machines.json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchfleet", *words],
        cwd=study,
        env={**os.environ, "XDG_CACHE_HOME": str(study / ".cache")},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def results(study: Path) -> dict[str, dict[str, Any]]:
    """Every published cell, by the last part of its path."""
    root = study / "benchmark_results" / "study"
    return {
        file.parent.name: {"folder": file.parent, **json.loads(file.read_text())}
        for file in root.rglob("cell.json")
        if ".attempts" not in file.parts
    }


def test_scripts_and_callables_run_on_a_host_that_sees_no_file_of_the_campaign(
    study: Path, lan: Machines
) -> None:
    machine = lan.add("lab1", hidden=study)
    (study / "own").mkdir()
    (study / "own" / "words.txt").write_text("one two three")
    (study / "own" / "helper.py").write_text("NUMBER = 3\n")
    (study / "own" / "measure.py").write_text(
        "import json, os, socket, sys\n"
        "from pathlib import Path\n"
        "from helper import NUMBER\n"
        "words = (Path(__file__).parent / 'words.txt').read_text().split()\n"
        "Path(sys.argv[1]).write_text(json.dumps({'score': len(words) / NUMBER}))\n"
        "print('measured on', socket.gethostname())\n"
    )
    (study / "own" / "called.py").write_text(
        "import json, socket\n"
        "from pathlib import Path\n"
        "from helper import NUMBER\n"
        "def evaluate(adapter, result_dir):\n"
        "    Path(result_dir, 'where ü.txt').write_text(socket.gethostname())\n"
        "    return {'score': NUMBER / 4}\n"
    )
    campaign = """\
    campaign: study
    matrix:
      models: [{name: m, adapter: mock}]
      configs: {dense: null}
      benchmarks:
        - command:
            name: script
            argv: [PYTHON, own/measure.py, "{result}"]
            metric: score
            files: [own/*.py, own/words.txt]
        - python: {name: callable, call: "called:evaluate", path: own, metric: score,
                   files: [own/*.py]}
    """
    run(study, campaign.replace("PYTHON", "python"), machine)
    found = results(study)
    assert set(found) == {"script", "callable"}
    assert found["script"]["provenance"]["host"] == "lab1"
    assert "measured on lab1" in (found["script"]["folder"] / "log.txt").read_text()
    kept = [path.read_text() for path in found["callable"]["folder"].rglob("where ü.txt")]
    assert kept == ["lab1"]


def test_a_model_and_tasks_of_ones_own_run_on_a_host_that_sees_neither(
    study: Path, lan: Machines
) -> None:
    pytest.importorskip("lm_eval")
    machine = lan.add("lab1", hidden=study)
    shutil.copytree(EXAMPLES / "model", study / "model")
    shutil.copytree(EXAMPLES / "tasks", study / "tasks")
    campaign = """\
    campaign: study
    matrix:
      models: [{name: tiny, path: ./model, adapter: transformers}]
      configs: {dense: null}
      benchmarks:
        - lm_eval: {tasks: [recall_choice], include_path: ./tasks, limit: 4}
    """
    run(study, campaign, machine)
    (cell,) = results(study).values()
    assert cell["provenance"]["host"] == "lab1"
    samples = (cell["folder"] / "samples.jsonl").read_text().splitlines()
    assert len(samples) == 4
    (sent,) = (path for path in (machine.folder / "home" / "models").iterdir() if path.is_dir())
    assert {file.name for file in sent.iterdir()} >= {"config.json", "model.safetensors"}


def test_a_path_of_the_inventory_that_the_host_lacks_is_named(study: Path, lan: Machines) -> None:
    machine = lan.add("lab1", hidden=study)
    shutil.copytree(EXAMPLES / "model", study / "model")
    campaign = """\
    campaign: study
    defaults: {limits: {tries: 1}}
    matrix:
      models: [{name: tiny, path: ./model, adapter: transformers}]
      configs: {dense: null}
      benchmarks: [mock_benchmark]
    """
    output = run(study, campaign, machine, code=1, paths={"model": "/no/such/models"})
    assert "provision: model_not_found" in output
    assert "lab1 has no /no/such/models" in output
    assert not (machine.folder / "home" / "models").exists()


def test_a_gguf_file_is_sent_to_the_host_and_its_server_runs_there(
    study: Path, lan: Machines
) -> None:
    machine = lan.add("lab1", hidden=study)
    program = llama_server(machine.folder / "programs")
    python = machine.folder / "python"
    python.write_text(f'#!/bin/sh\nPATH="{program.parent}:$PATH" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (study / "tiny.gguf").write_bytes(b"weights")
    campaign = """\
    campaign: study
    defaults: {generation: {max_new_tokens: 4}}
    matrix:
      models: [{name: served, adapter: llama_cpp, path: ./tiny.gguf}]
      configs: {dense: null}
      benchmarks: [recall: {samples: 4, subsets: ["64"]}]
    """
    run(study, campaign, machine, python=str(python))
    (cell,) = results(study).values()
    assert cell["provenance"]["host"] == "lab1"
    command = cell["provenance"]["model"]["command"]
    assert command[0] == "llama-server"
    assert Path(command[2]).is_relative_to(machine.folder / "home" / "models")
    assert Path(command[2]).read_bytes() == b"weights"


def test_a_managed_server_runs_on_the_host_itself(study: Path, lan: Machines) -> None:
    machine = lan.add("lab1", hidden=study)
    shutil.copytree(EXAMPLES / "model", study / "model")
    campaign = """\
    campaign: study
    defaults: {generation: {max_new_tokens: 4}}
    matrix:
      models:
        - name: served
          adapter: transformers_serve
          path: ./model
          api: completions
          server: {args: [--dtype, float32]}
      configs: {dense: null}
      benchmarks: [recall: {samples: 4, subsets: ["64"]}]
    """
    run(study, campaign, machine)
    (cell,) = results(study).values()
    assert cell["provenance"]["host"] == "lab1"
    assert cell["provenance"]["model"]["url"].startswith("http://127.0.0.1:")
    assert str(study) not in cell["provenance"]["model"]["command"][2]
    assert len((cell["folder"] / "samples.jsonl").read_text().splitlines()) == 4
