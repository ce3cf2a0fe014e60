"""Servers that a slot starts itself; the simulated server stands in for a real one."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure
from benchfleet.models.base import Prompt
from benchfleet.models.served import managed
from benchfleet.models.served.managed import ManagedAdapter
from benchfleet.models.served.managed_server import ManagedServer, _free_port
from benchfleet.models.served.recipes import PORT, Recipe
from benchfleet.testing.simulated_server import SimulatedServer

DENSE = Config(name="dense")
PROMPT = Prompt(context="a", question="b")
SIMULATED = [sys.executable, "-m", "benchfleet.testing.simulated_server", "--port", PORT]


class Simulated(ManagedAdapter):
    recipe: ClassVar[str] = "simulated"
    health_every_s: ClassVar[float] = 0.1

    @classmethod
    def digest(cls, source: str) -> str:
        return source

    @classmethod
    def fetch(cls, model: Model) -> Path:
        return Path()


@pytest.fixture(autouse=True)
def recipe(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    recipe = Recipe(name="simulated", command=lambda model, gpus: SIMULATED)
    monkeypatch.setattr(managed, "RECIPES", {"simulated": recipe})
    return recipe


@pytest.fixture
def adapter() -> Iterator[Simulated]:
    kwargs = {"server": {"args": ["--gap-ms", "0"]}}
    model = Model(
        name="m", adapter="simulated", source="simulated", digest="d", model_kwargs=kwargs
    )
    adapter = Simulated(model)
    try:
        yield adapter
    finally:
        adapter.unload()


def pid_of(adapter: Simulated) -> int:
    assert adapter._server
    assert adapter._server.pid
    return adapter._server.pid


def test_a_server_is_started_asked_and_ended_with_nothing_left(adapter: Simulated) -> None:
    adapter.load()
    adapter.configure(DENSE)
    pid = pid_of(adapter)
    assert adapter.answer([PROMPT], {"max_new_tokens": 2})[0].completion_tokens == 2
    adapter.configure(Config(name="loud", chat={"template_kwargs": {"loud": True}}))
    assert adapter._wire.body(PROMPT, {})["chat_template_kwargs"] == {"loud": True}
    provenance = adapter.provenance()
    assert provenance["command"] == [*SIMULATED, "--gap-ms", "0"]
    assert provenance["load_seconds"] > 0
    assert provenance["server_ram"] > 10**6
    adapter.configure(DENSE)
    assert pid_of(adapter) == pid  # kept for the next cell
    adapter.unload()
    assert not psutil.pid_exists(pid)


def test_a_server_that_dies_fails_its_cell_and_the_next_gets_another(adapter: Simulated) -> None:
    adapter.load()
    pid = pid_of(adapter)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(CellFailure, match=r"\(simulated\) was ended by signal 9") as caught:
        adapter.answer([PROMPT], {})
    assert (caught.value.stage, caught.value.kind) == ("benchmark", "server_died")
    assert caught.value.is_retryable
    adapter.configure(DENSE)
    assert pid_of(adapter) != pid
    assert adapter.answer([PROMPT], {})[0].text


def test_a_request_that_fails_on_a_living_server_has_the_end_of_its_log(
    recipe: Recipe, adapter: Simulated
) -> None:
    script = (
        "from benchfleet.testing import simulated_server as s; import asyncio, sys;"
        "print('ValueError: no template', flush=True);"
        "b = s.Behaviour(status=500);"
        "asyncio.run(s.SimulatedServer(port=int(sys.argv[1]), otherwise=b).serve())"
    )
    broken = Recipe(
        name="simulated", command=lambda model, gpus: [sys.executable, "-c", script, PORT]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(managed, "RECIPES", {"simulated": broken})
        with pytest.raises(CellFailure) as caught:
            adapter.load()
    message = str(caught.value)
    assert "answered HTTP 500" in message
    assert "if the model has no chat template, set api: completions. The end of" in message
    assert message.endswith("ValueError: no template")
    assert (caught.value.stage, caught.value.kind) == ("load", "server_unavailable")


def test_a_server_that_hangs_fails_its_cell_and_is_ended(
    adapter: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchfleet.models.served.managed_server._HEALTH_TIMEOUT_S", 0.2)
    monkeypatch.setattr("benchfleet.models.served.managed_server.TERM_TIMEOUT_S", 0.2)
    adapter.load()
    pid = pid_of(adapter)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(CellFailure, match="stopped answering") as caught:
        adapter.answer([PROMPT], {})
    assert caught.value.kind == "server_died"
    assert not psutil.pid_exists(pid)


def test_a_server_that_ends_at_once_is_named_with_its_log(recipe: Recipe) -> None:
    script = "print('no such weights'); raise SystemExit(3)"
    server = ManagedServer(recipe, [sys.executable, "-c", script], environment={})
    with pytest.raises(CellFailure, match="ended with exit code 3") as caught:
        server.start()
    assert (caught.value.stage, caught.value.kind) == ("load", "server_died")
    assert "no such weights" in str(caught.value)


def test_a_server_that_lacks_a_package_fails_once_and_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = [sys.executable, "-c", "import no_such_package_of_a_server"]
    broken = Recipe(name="broken", command=lambda model, gpus: command, install="pip install it")
    monkeypatch.setattr(managed, "RECIPES", {"simulated": broken})
    adapter = Simulated(Model(name="m", adapter="simulated", source="simulated", digest="d"))
    with pytest.raises(CellFailure, match="a package is missing; pip install it") as caught:
        adapter.load()
    assert (caught.value.stage, caught.value.kind) == ("setup", "missing_extra")
    assert not caught.value.is_retryable
    assert "no_such_package_of_a_server" in str(caught.value)


def test_arguments_that_a_server_refuses_fail_once_in_its_own_words(adapter: Simulated) -> None:
    adapter.model.kwargs["server"]["args"][:] = ["--max-model-length", "9"]
    with pytest.raises(CellFailure, match="it refuses its arguments; correct args") as caught:
        adapter.load()
    assert (caught.value.stage, caught.value.kind) == ("setup", "user_error")
    assert not caught.value.is_retryable
    assert "unrecognized arguments: --max-model-length 9" in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        "error: invalid argument: --ctxsize",  # llama-server
        "Usage: transformers serve [OPTIONS]\\nNo such option: --dtyp Did you mean --dtype?",
        "Error: unknown flag: --hots",  # ollama
    ],
)
def test_each_server_says_in_its_way_that_an_argument_is_wrong(recipe: Recipe, words: str) -> None:
    script = f"print('{words}'); raise SystemExit(1)"
    with pytest.raises(CellFailure) as caught:
        ManagedServer(recipe, [sys.executable, "-c", script], environment={}).start()
    assert (caught.value.stage, caught.value.kind) == ("setup", "user_error")


@pytest.mark.parametrize(
    "words",
    ["CUDA error: invalid argument", "INFO KV cache usage: 3.1%", "[Errno 22] Invalid argument"],
)
def test_words_that_sound_alike_are_no_wrong_arguments(recipe: Recipe, words: str) -> None:
    script = f"print('{words}'); raise SystemExit(1)"
    with pytest.raises(CellFailure) as caught:
        ManagedServer(recipe, [sys.executable, "-c", script], environment={}).start()
    assert (caught.value.stage, caught.value.kind) == ("load", "server_died")


def test_memory_that_ran_out_is_named(recipe: Recipe) -> None:
    script = "print('torch.OutOfMemoryError: CUDA out of memory'); raise SystemExit(1)"
    with pytest.raises(CellFailure) as caught:
        ManagedServer(recipe, [sys.executable, "-c", script], environment={}).start()
    assert caught.value.kind == "oom"


def test_a_server_that_never_becomes_healthy_is_a_timeout_and_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = "import os, time; print('loading as', os.getpid(), flush=True); time.sleep(600)"
    words = [sys.executable, "-I", "-S", "-c", script]  # it has to begin within the second
    slow = Recipe(name="slow", command=lambda model, gpus: words)
    monkeypatch.setattr(managed, "RECIPES", {"simulated": slow})
    timeout = {"start_timeout": "1s"}
    adapter = Simulated(
        Model(name="m", adapter="simulated", source="simulated", digest="d", outside=timeout)
    )
    with pytest.raises(CellFailure, match="was not ready after") as caught:
        adapter.load()
    assert (caught.value.stage, caught.value.kind) == ("load", "timeout")
    assert not psutil.pid_exists(int(str(caught.value).rpartition("loading as ")[2]))


def test_a_program_that_is_missing_is_named() -> None:
    recipe = Recipe(name="x", command=lambda model, gpus: [], install="pip install x")
    with pytest.raises(CellFailure, match=r"no-such-program is not installed.*pip install x"):
        ManagedServer(recipe, ["no-such-program"], environment={}).start()


def test_another_server_at_the_port_is_not_taken_for_ours(recipe: Recipe) -> None:
    with SimulatedServer() as other:
        ports = chain([other.port], iter(_free_port, None))
        server = ManagedServer(recipe, SIMULATED, environment={}, free_port=lambda: next(ports))
        server.start()
        try:
            assert server.url != other.url
            assert server.is_healthy()
        finally:
            server.end()


def test_a_port_that_stays_taken_is_named(recipe: Recipe) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = repeat(taken.getsockname()[1])
        server = ManagedServer(recipe, SIMULATED, environment={}, free_port=lambda: next(ports))
        with pytest.raises(CellFailure, match="address already in use") as caught:
            server.start()
    assert (caught.value.stage, caught.value.kind) == ("setup", "server_died")
    assert "another process took its port, 3 times" in str(caught.value)


def test_a_server_that_dies_under_a_request_is_noticed(adapter: Simulated) -> None:
    adapter.model.kwargs["server"]["args"][:] = ["--gap-ms", "60000"]
    adapter._wire.body = lambda *_, **__: {  # type: ignore[method-assign]
        "model": "simulated",
        "messages": [],
        "max_tokens": 1,
    }
    adapter.load()
    adapter._wire.body = lambda *_, **__: {  # type: ignore[method-assign]
        "model": "simulated",
        "messages": [],
        "max_tokens": 8,
    }
    pid = pid_of(adapter)

    def kill_later() -> None:
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)

    threading.Thread(target=kill_later).start()
    with pytest.raises(CellFailure, match="signal 9"):
        adapter.answer([PROMPT], {})
