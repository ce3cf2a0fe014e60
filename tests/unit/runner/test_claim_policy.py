"""Whose cells run here: what a shared ledger tells may name plugins and parameters, and no code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import CellRecord, Claim, Lease
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Cell, Config, Workload
from benchfleet.domain.resource import Need
from benchfleet.runner.claim_policy import ClaimPolicy, with_local_definition
from benchfleet.testing.sample_cells import sample_cell
from records import record_of


def record(cell: Cell, **changes: Any) -> CellRecord:
    """Of a cell that waits for its first attempt."""
    fields = {"state": "pending", "attempt": 0, "tries": 0, "token": 0}
    return record_of(cell, **{**fields, **changes})


def mock(**model: Any) -> Cell:
    cell = sample_cell(0)
    fields = {"adapter": "mock", "model_kwargs": {}, "python": "", "source": "m", **model}
    workload = Workload(benchmark="mock_benchmark", version="1")
    return replace(cell, model=replace(cell.model, **fields), workload=workload)


def reason(cell: Cell, *, trusted: bool = False, **changes: Any) -> str:
    """Why the cell is left for others; ``""`` where it runs here."""
    found = ClaimPolicy(trusted=trusted).sort([record(cell, **changes)])
    assert len(found.cells) + len(found.rejected) == 1
    return next(iter(found.rejected), "")


def test_a_cell_of_plugins_and_parameters_runs() -> None:
    assert reason(mock()) == ""


def with_workload(name: str, **fields: Any) -> Cell:
    return replace(mock(), workload=Workload(**{"benchmark": name, "version": "1", **fields}))


@pytest.mark.parametrize(
    ("cell", "output"),
    [
        (with_workload("command", params={"argv": ["rm", "-rf", "/"]}), "a command"),
        (with_workload("python", params={"call": "os:system"}), "a callable of Python"),
        (with_workload("_hostile"), "for tests alone"),
        (mock(python="/opt/odd/bin/python"), "the interpreter /opt/odd/bin/python"),
    ],
)
def test_a_cell_that_brings_code_waits_for_those_who_trust_it(cell: Cell, output: str) -> None:
    assert output in reason(cell)
    assert reason(cell, trusted=True) == ""


@pytest.mark.parametrize(
    "kwargs",
    [
        {"trust_remote_code": True},
        {"attn_implementation": "kernels-lab/flash"},
        {"weights_only": False},
        {"config": "evil/config"},
        {"use_kernels": True},
    ],
)
def test_kwargs_by_which_a_checkpoint_brings_code_are_named(kwargs: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
    for side in ("model_kwargs", "tokenizer_kwargs"):
        cell = mock(adapter="transformers", source="lab/model", **{side: kwargs})
        assert next(iter(kwargs)) in reason(cell)
        assert reason(cell, trusted=True) == ""


def test_harmless_kwargs_of_a_checkpoint_run() -> None:
    pytest.importorskip("transformers")
    kwargs = {"dtype": "bfloat16", "attn_implementation": "eager", "low_cpu_mem_usage": True}
    assert reason(mock(adapter="transformers", source="lab/model", model_kwargs=kwargs)) == ""


def test_tasks_of_ones_own_in_lm_eval_are_code_and_its_built_in_ones_are_not() -> None:
    pytest.importorskip("lm_eval")
    assert reason(with_workload("lm_eval", subset="gsm8k")) == ""
    own = with_workload("lm_eval", subset="mine", outside={"include_path": "/lab/tasks"})
    assert "/lab/tasks" in reason(own)


def test_a_cell_that_is_not_what_its_fingerprint_says_never_runs() -> None:
    for trusted in (False, True):
        assert "fingerprint" in reason(mock(), trusted=trusted, fingerprint="0" * 64)


@pytest.mark.parametrize("path", ["../../x", "/etc/a/b", "a/b", "a/../c", "a/.b/c", "a//c", ""])
def test_a_path_that_leads_out_of_the_results_never_runs(path: str) -> None:
    assert "not a path of a cell" in reason(mock(), trusted=True, path=path)


def test_what_is_not_here_is_left_for_those_who_have_it(tmp_path: Path) -> None:
    assert "not on this host" in reason(mock(source=str(tmp_path / "gone")))
    assert reason(mock(source=str(tmp_path))) == ""
    assert "no adapter 'mok'" in reason(mock(adapter="mok"))


def test_cells_of_other_versions_of_plugins_are_left_for_those_who_have_them() -> None:
    assert reason(mock(adapter_version=1)) == ""
    assert "adapter 'mock' has version 1 here" in reason(mock(adapter_version=2))
    assert "'recall' has version 1 here, but the cell needs 2" in reason(
        with_workload("recall", version="2")
    )
    step = AttentionStep(name="sink", params={"sink_size": 4}, version=2)
    cell = replace(mock(), config=Config(name="sparse", attention=(step,)))
    assert "attention config 'sink' has version 1 here" in reason(cell)


def test_only_allowed_models_are_taken() -> None:
    cells = [mock(name=name) for name in ("llama-8b", "llama-70b", "phi")]
    found = ClaimPolicy(models=("llama-*", "nobody")).sort(map(record, cells))
    assert [cell.model.name for cell in found.cells] == ["llama-8b", "llama-70b"]
    assert found.rejected == {"its model does not match llama-*, nobody": (cells[2].id,)}


def test_an_excluded_model_is_not_taken() -> None:
    cells = [mock(name=name) for name in ("llama-8b", "llama-70b", "phi")]
    found = ClaimPolicy(models=("!llama-70b",)).sort(map(record, cells))
    assert [cell.model.name for cell in found.cells] == ["llama-8b", "phi"]


def test_what_the_ledger_says_since_changes_no_path_and_no_code() -> None:
    known = mock(source="/here/model")
    output = replace(
        known,
        model=replace(known.model, source="/there/model", python="/evil/python"),
        workload=replace(known.workload, outside={"folder": "/evil"}),
        need=Need(gpus=2),
        priority=7,
    )
    lease = Lease(fingerprint=known.fingerprint, attempt=1, token=1, expires_in=60)
    claim = with_local_definition(Claim(lease=lease, cell=output, path="a/b/c", tries=0), known)
    assert (claim.cell.model, claim.cell.workload) == (known.model, known.workload)
    assert (claim.cell.need, claim.cell.priority) == (Need(gpus=2), 7)
