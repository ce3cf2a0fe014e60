"""The hardware axis of a matrix, and the identity of its cells."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.hardware import Hardware
from benchfleet.domain.matrix import Matrix, ModelEntry, Rule
from benchfleet.domain.resource import Need

SMALL = Hardware(name="4090-vast", gpu="RTX 4090", provider="vast")
LARGE = Hardware(name="a100", gpu="A100 80GB")
MATRIX = Matrix(
    models=tuple(
        ModelEntry(model=Model(name=name, adapter="mock", source=name, digest=name))
        for name in ("7b", "70b")
    ),
    configs=(Config(name="dense"),),
    workloads=(
        Workload(benchmark="serving", version="1", measures_speed=True),
        Workload(benchmark="recall", version="1"),
    ),
    hardware=(SMALL, LARGE),
    exclude=(Rule(hardware=("4090*",), models=("70b",)),),
)


def test_what_measures_speed_has_a_cell_for_each_hardware_and_other_benchmarks_have_one() -> None:
    cells = MATRIX.expand()
    assert [(str(cell.id), [one.name for one in cell.hardware]) for cell in cells] == [
        ("7b/dense/serving+4090-vast", ["4090-vast"]),
        ("7b/dense/serving+a100", ["a100"]),
        ("7b/dense/recall", ["4090-vast", "a100"]),
        ("70b/dense/serving+a100", ["a100"]),
        ("70b/dense/recall", ["a100"]),
    ]
    assert len({cell.fingerprint for cell in cells}) == 5


def test_hardware_is_identity_for_speed_alone() -> None:
    without = {cell.id: cell for cell in replace(MATRIX, hardware=(), exclude=()).expand()}
    by_id = {str(cell.id): cell for cell in MATRIX.expand()}
    assert by_id["7b/dense/recall"].fingerprint == without[by_id["7b/dense/recall"].id].fingerprint
    speed = by_id["7b/dense/serving+a100"]
    assert speed.identity()["hardware"] == LARGE.identity()
    assert speed.fingerprint not in {cell.fingerprint for cell in without.values()}
    renamed = replace(speed, need=Need(hardware=(replace(LARGE, name="other"),)))
    assert renamed.fingerprint == speed.fingerprint


def test_a_stored_cell_keeps_its_hardware() -> None:
    for cell in MATRIX.expand():
        again = Cell.from_dict(cell.to_dict())
        assert (again, again.hardware, again.id) == (cell, cell.hardware, cell.id)
