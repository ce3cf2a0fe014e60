"""Recipes: how each kind of server is started, and where it answers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

PORT = "{port}"  # stands for the port in a command line
ADDRESS_OPTIONS = ("--host", "--port")  # of every server; benchfleet picks them


def _cuda_devices() -> int:
    """GPUs that this slot's processes see."""
    return len([one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one])


def _vllm(model: str, gpus: int) -> list[str]:
    width = ["--tensor-parallel-size", str(gpus)] if gpus > 1 else []
    return ["vllm", "serve", model, "--host", "127.0.0.1", "--port", PORT, *width]


def _sglang(model: str, gpus: int) -> list[str]:
    program = [sys.executable, "-m", "sglang.launch_server", "--model-path", model]
    return [*program, "--host", "127.0.0.1", "--port", PORT, *(["--tp", str(gpus)] * (gpus > 1))]


def _llama_cpp(model: str, gpus: int) -> list[str]:
    if find_program("llama-server"):
        layers = ["--n-gpu-layers", "999"] if gpus else []
        return ["llama-server", "-m", model, "--host", "127.0.0.1", "--port", PORT, *layers]
    layers = ["--n_gpu_layers", "-1"] if gpus else []
    program = [sys.executable, "-m", "llama_cpp.server", "--model", model]
    return [*program, "--host", "127.0.0.1", "--port", PORT, *layers]


def _transformers(model: str, gpus: int) -> list[str]:
    device = [] if gpus else ["--device", "cpu"]
    return ["transformers", "serve", model, "--host", "127.0.0.1", "--port", PORT, *device]


def _ollama(model: str, gpus: int) -> list[str]:
    return ["ollama", "serve"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One kind of server."""

    name: str
    command: Callable[[str, int], list[str]]  # of the model's path and the number of GPUs
    health: Sequence[str] = ("/health",)  # paths, of which one answers 200 once it is ready
    environment: Mapping[str, str] = field(default_factory=dict)
    address_variables: Sequence[str] = ()  # that name its address
    install: str = ""  # what to do if its program is missing

    def command_line(
        self, model: str, args: Sequence[str], *, gpus: int | None = None
    ) -> list[str]:
        """The command with the user's arguments last; `PORT` stands for the port."""
        return [*self.command(model, _cuda_devices() if gpus is None else gpus), *args]

    def address_setting(self, args: Sequence[str], variables: Sequence[str]) -> str | None:
        """The first argument or variable that would change the server's address, or None."""
        for word in args:
            if word.partition("=")[0] in ADDRESS_OPTIONS:
                return word
        return next((name for name in variables if name in self.address_variables), None)

    def missing_program(self) -> str:
        """What to install if this host cannot start the server; ``""`` if it can."""
        program, *words = self.command("", 0)
        module = words[1].partition(".")[0] if words[0] == "-m" else ""
        is_here = find_spec(module) if module else find_program(program)
        return "" if is_here else f"its server is not installed; {self.install}"


RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(name="vllm", command=_vllm, install="pip install vllm"),
        Recipe(name="sglang", command=_sglang, install="pip install sglang"),
        Recipe(
            name="llama_cpp",
            command=_llama_cpp,
            health=("/health", "/v1/models"),  # llama-cpp-python has no /health
            address_variables=("LLAMA_ARG_HOST", "LLAMA_ARG_PORT"),
            install="install llama.cpp, or pip install 'llama-cpp-python[server]'",
        ),
        Recipe(
            name="transformers_serve",
            command=_transformers,
            install="pip install 'transformers[serving]'",
        ),
        Recipe(
            name="ollama_serve",
            command=_ollama,
            health=("/api/version",),
            environment={"OLLAMA_HOST": f"127.0.0.1:{PORT}"},
            address_variables=("OLLAMA_HOST",),
            install="install Ollama",
        ),
    )
}


def find_program(name: str) -> str | None:
    """The path of a program: beside this interpreter first, then on the PATH."""
    beside = str(Path(sys.executable).parent)
    return shutil.which(name, path=beside) or shutil.which(name)
