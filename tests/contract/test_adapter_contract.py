"""Every adapter against the contract. Servers are real where one is here, else simulated."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest

from benchfleet import registry
from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure, MissingExtra
from benchfleet.models.base import Adapter, Prompt, adapter_class
from benchfleet.models.served import managed
from benchfleet.models.served.managed import LlamaCppAdapter, ManagedAdapter
from benchfleet.models.served.recipes import PORT, RECIPES, Recipe
from benchfleet.testing.adapter_contract import DENSE, AdapterContract
from benchfleet.testing.simulated_server import SimulatedServer
from gguf_models import saved_gguf
from tiny_models import saved_model

_SIMULATED = [sys.executable, "-m", "benchfleet.testing.simulated_server", "--port", PORT]


def _simulated(model: str, gpus: int) -> list[str]:
    return [*_SIMULATED, *(["--model", model] if model else [])]


class TestMock(AdapterContract):
    @classmethod
    def make_model(cls, folder: Path) -> Model:
        return cls.model_of("mock", "m")


class Shipped(AdapterContract):
    """An adapter of the registry, all of which one process imports in `test_light_imports.py`."""

    test_its_module_imports_nothing_heavy = None  # type: ignore[assignment]


class TestTransformers(Shipped):
    batch_is_exact: ClassVar[bool] = False

    @classmethod
    def make_model(cls, folder: Path) -> Model:
        pytest.importorskip("transformers")
        source = str(saved_model(folder / "tiny", "llama"))
        return cls.model_of("transformers", source, dtype="float32")


class Served(Shipped):
    adapter_name: ClassVar[str]
    below: ClassVar[str] = ""

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Iterator[Model]:
        with SimulatedServer() as server:
            yield cls.model_of(cls.adapter_name, server.model, url=server.url + cls.below)


class TestOpenAI(Served):
    adapter_name: ClassVar[str] = "openai"
    below: ClassVar[str] = "/v1"


class TestOllama(Served):
    adapter_name: ClassVar[str] = "ollama"


class Managed(Shipped):
    """A server that the slot starts: the simulated one in place of the real program."""

    adapter_name: ClassVar[str]
    health: ClassVar[tuple[str, ...]] = ("/health",)

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def recipe(cls) -> Iterator[None]:
        simulated = Recipe(name=cls.adapter_name, command=_simulated, health=cls.health)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(managed, "RECIPES", {**RECIPES, cls.adapter_name: simulated})
            yield

    @classmethod
    def make_model(cls, folder: Path) -> Model:
        return cls.model_of(cls.adapter_name, str(saved_model(folder / "tiny", "llama")))


class TestVllm(Managed):
    adapter_name: ClassVar[str] = "vllm"


class TestOllamaServe(Managed):
    adapter_name: ClassVar[str] = "ollama_serve"
    health: ClassVar[tuple[str, ...]] = ("/api/version",)

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
        home = tmp_path_factory.mktemp("ollama")
        manifest = home / "manifests" / "registry.ollama.ai" / "library" / "simulated" / "latest"
        manifest.parent.mkdir(parents=True)
        manifest.write_text("{}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OLLAMA_MODELS", str(home))
            yield cls.model_of(cls.adapter_name, "simulated")


# Engines that take minutes to build, or need a GPU, are tested where they are installed.
class TestLlamaCppOffline(AdapterContract):
    __test__ = all(map(find_spec, ("llama_cpp", "gguf")))

    @classmethod
    def make_model(cls, folder: Path) -> Model:
        return cls.model_of("llama_cpp_offline", str(saved_gguf(folder / "tiny.gguf")))

    def test_a_wrong_setting_is_named(self) -> None:
        wrong = {"n_contx": 5}
        model = Model(
            name="m", adapter="llama_cpp_offline", source="m", digest="d", model_kwargs=wrong
        )
        problem = str(adapter_class("llama_cpp_offline").check(model, DENSE))
        assert "no setting 'n_contx'" in problem


@pytest.mark.filterwarnings("default")  # importing vLLM warns of what it uses itself
class TestVllmOffline(AdapterContract):
    __test__ = find_spec("vllm") is not None
    batch_is_exact: ClassVar[bool] = False

    @classmethod
    def make_model(cls, folder: Path) -> Model:
        # vLLM's kernels for CPUs take heads of 32 channels or more.
        source = saved_model(folder / "tiny", "llama", hidden_size=128)
        return cls.model_of("vllm_offline", str(source), max_model_len=1024)


def test_an_adapter_that_opens_nothing_says_so() -> None:
    kind = adapter_class("none")
    adapter = kind(AdapterContract.model_of("none", "m"))
    assert not kind.opens
    for call in (adapter.load, lambda: adapter.answer([Prompt(context="?")], {})):
        with pytest.raises(CellFailure, match="opens nothing"):
            call()
    adapter.unload()


def differs_by_its_command_alone(kind: type[Adapter]) -> bool:
    """Whether an adapter starts a server of its own, and is `ManagedAdapter` in all else.

    Its command line, and what identifies a GGUF file, are in `test_recipes.py`.
    """
    own = {name for name in vars(kind) if not name.startswith("_")}
    of_a_file = {"digest", "downloads", "fetch"} if kind is LlamaCppAdapter else set()
    return issubclass(kind, ManagedAdapter) and own <= {"recipe", "example", *of_a_file}


def test_every_adapter_is_put_through_the_contract() -> None:
    tested = {
        getattr(one, "adapter_name", "") or one.__name__.removeprefix("Test").lower()
        for one in globals().values()
        if isinstance(one, type) and issubclass(one, AdapterContract)
    }
    plain = {name.replace("_", "") for name in tested}
    others = {name for name in registry.names("models") if name.replace("_", "") not in plain}
    assert others == {"none", "llama_cpp", "sglang", "transformers_serve"}
    assert all(differs_by_its_command_alone(adapter_class(name)) for name in others - {"none"})


@pytest.mark.parametrize("name", ["llama_cpp_offline", "vllm_offline"])
def test_an_offline_engine_that_is_not_installed_says_what_to_install(name: str) -> None:
    if find_spec(name.removesuffix("_offline")):
        pytest.skip("it is installed here")
    extra = name.removesuffix("_offline").replace("_", "-")
    assert f"pip install 'benchfleet[{extra}]'" in registry.info("models", name).problem
    with pytest.raises(MissingExtra, match="pip install"):
        registry.load("models", name)
    assert adapter_class(name).extra == extra  # an interpreter of the model's own may have it
