"""A machine's facts survive the way from its stdout, whatever else is reported there."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict

import pytest

from benchfleet.domain.gpu import GpuProcess, GpuState
from benchfleet.errors import DeviceError, NoGpu, ProtocolError
from benchfleet.machines import facts as module
from benchfleet.machines.facts import Facts, Gpu, parse_facts

TOLD = Facts(
    benchfleet="1.2.3",
    environment="1.2.3-0123abcd",
    python="3.12.1",
    executable="/x/bin/python",
    hostname="lab1",
    platform="Linux",
    cores=8,
    memory=64 * 10**9,
    disk_free=10**12,
    gpus=(Gpu(index=0, name="H100", memory=80, uuid="GPU-1", free=70, processes=("me: x (1)",)),),
    packages={"torch": "2.6"},
    clock=1.5,
)
LINE = json.dumps({"benchfleet_facts": 1, **asdict(TOLD)})


@pytest.mark.parametrize(
    "text",
    [
        LINE,
        f"Welcome to lab1\n{{not json}}\n{LINE}\n",
        f"no end of line here {LINE}",
        f"{LINE}\nlogging out\n",
        f'{{"benchfleet_facts": 1}} of an echo\n{LINE}',
    ],
)
def test_facts_are_found_among_what_login_scripts_say(text: str) -> None:
    assert parse_facts(text) == TOLD


@pytest.mark.parametrize("text", ["", "Welcome\n", "{}", '{"benchfleet_facts": 99}', "\x1b[2J"])
def test_no_facts_are_an_error_that_shows_the_output(text: str) -> None:
    with pytest.raises(ProtocolError, match="tells nothing of itself; it said "):
        parse_facts(text)


@pytest.mark.parametrize("lacking", ["gpus", "clock", "hostname"])
def test_facts_of_another_kind_are_an_error(lacking: str) -> None:
    output = json.loads(LINE)
    del output[lacking]
    with pytest.raises(ProtocolError, match=lacking):
        parse_facts(json.dumps(output))


def test_what_only_a_newer_version_knows_of_is_left_out() -> None:
    assert parse_facts(LINE.replace('"cores"', '"quantum": 3, "cores"')) == TOLD


def test_the_machine_that_tests_run_on_reports_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert module.main(["/nonexistent/folder"]) == 0
    output = parse_facts(capsys.readouterr().out)
    assert output.cores >= 1
    assert output.disk_free > 0
    assert [bool(output.gpus), bool(output.no_gpu), bool(output.gpu_problem)].count(True) == 1


class Nvml:
    """NVML with a GPU that others are on, and one that is lost."""

    def driver(self) -> str:
        return "550"

    def gpus(self) -> tuple[GpuState, ...]:
        ada = GpuProcess(pid=7, name="python3", user="ada")
        first = GpuState(index=0, name="H100", memory=80, free=30, processes=(ada,))
        return first, GpuState(index=1, lost="GPU is lost")


def test_a_gpu_says_how_much_is_free_who_is_on_it_and_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "open_nvml", lambda: nullcontext(Nvml()))
    used, lost = module.gpus()
    assert (used.memory, used.free, used.device.label) == (80, 30, "gpu:0")
    assert (used.processes, used.fault) == (("ada: python3 (7)",), "")
    assert "GPU is lost" in lost.fault


@pytest.mark.parametrize(
    ("error", "no_gpu", "problem"),
    [
        (NoGpu("there is none"), "there is none", ""),
        (DeviceError("a GPU does not answer"), "", "a GPU does not answer"),
    ],
)
def test_a_machine_without_gpus_is_distinguished_from_one_whose_gpus_fail(
    monkeypatch: pytest.MonkeyPatch, error: Exception, no_gpu: str, problem: str
) -> None:
    def failing() -> tuple[Gpu, ...]:
        raise error

    monkeypatch.setattr(module, "gpus", failing)
    output = module.facts("~")
    assert (output.gpus, output.no_gpu, output.gpu_problem) == ((), no_gpu, problem)
