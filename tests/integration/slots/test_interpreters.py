"""The interpreter of a slot: one that is not there, another one, and what it may import."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import benchfleet
from benchfleet.engines.base import (
    Done,
    SlotLost,
)
from benchfleet.testing.engine_fixture import slot_id

from .conftest import Opened, hostile, spec, started, until


def test_an_interpreter_that_is_not_there_loses_its_slot(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path, python="/nowhere/python"))
    until(events, SlotLost)
    assert "/nowhere/python" in (tmp_path / "slot.log").read_text()


def test_a_module_of_the_working_folder_does_not_hide_a_real_one(
    tmp_path: Path, impatient: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    (tmp_path / "benchfleet.py").write_text("raise SystemExit('the wrong benchfleet')")
    monkeypatch.chdir(tmp_path)
    engine, events = impatient
    started(impatient, tmp_path)
    engine.run(slot_id(), hostile(tmp_path, samples=1))
    until(events, Done)


def test_a_launcher_that_fails_leaves_its_words_in_the_slots_log(
    tmp_path: Path, impatient: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchfleet.engines.local._LAUNCHER", "/nowhere/launch.py")
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotLost)
    assert "/nowhere/launch.py" in (tmp_path / "slot.log").read_text()


def test_another_interpreter_is_given_benchfleet_and_nothing_that_lies_beside_it(
    tmp_path: Path,
) -> None:
    """The layout of an installed benchfleet, whose neighbours are of another Python."""
    site, bare = tmp_path / "site", tmp_path / "bare"
    shutil.copytree(
        Path(benchfleet.__file__).parent,
        site / "benchfleet",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in ("torch", "transformers", "yaml", "psutil", "rich"):
        (site / f"{name}.py").write_text(f"raise SystemExit('the runner''s own {name}')")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    program = """
import sys
site, python, folder = sys.argv[1:]
import psutil, yaml  # the runner's, for what lies in the folder is spoilt
sys.path.insert(0, site)
import os, queue
import benchfleet
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Device
from benchfleet.engines.base import *
from benchfleet.engines.local import LocalEngine
assert benchfleet.__file__.startswith(site), benchfleet.__file__
events = queue.SimpleQueue()
engine = LocalEngine(events.put)
cpu, slot = (Device(kind="cpu", index=0),), f"{os.getpid()}-1"
engine.open(SlotSpec(slot=slot, devices=cpu, threads=1, log=f"{folder}/s.log", python=python))
ready = events.get(timeout=60)
assert isinstance(ready, SlotReady), ready
for number, adapter in enumerate(("mock", "transformers")):
    model = Model(name="m", adapter=adapter, source="m", digest="m", python=python)
    work = Workload(benchmark="mock_benchmark", version="1", params={"rows": 2})
    cell = Cell(model=model, config=Config(name="dense"), workload=work)
    engine.run(slot, AttemptRequest(attempt=f"f/{number}", cell=cell, log=f"{folder}/{number}.log"))
    while not isinstance(event := events.get(timeout=60), (Done, Failed, SlotLost)):
        pass
    kind = event.failure.kind if isinstance(event, Failed) else event
    print(type(event).__name__, kind)
engine.shutdown()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(site), str(bare / "bin" / "python"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    output = [line.split()[:2] for line in ran.stdout.splitlines()]
    assert [line[0] for line in output] == ["Done", "Failed"], ran.stdout + ran.stderr
    assert output[1][1] == "missing_extra"
