from __future__ import annotations

from dataclasses import replace

from benchfleet.domain.cell import Config, Model, Workload
from benchfleet.domain.matrix import Matrix, ModelEntry, with_limit
from benchfleet.domain.resource import Need

WORKS = (Workload(benchmark="a", version="1"), Workload(benchmark="b", version="1"))
OWN = tuple(replace(work, generation={"temperature": 1}) for work in WORKS)


def _model(name: str) -> Model:
    return Model(name=name, adapter="mock", source=name, digest=name)


SMALL = ModelEntry(model=_model("small"), workloads=OWN, need=Need(gpus=1))
MATRIX = Matrix(
    models=(ModelEntry(model=_model("full"), variants=(SMALL,)), ModelEntry(model=_model("lone"))),
    configs=(Config(name="dense"),),
    workloads=WORKS,
)


def test_a_variant_is_no_model_of_the_product() -> None:
    assert {cell.model.name for cell in MATRIX.expand()} == {"full", "lone"}


def test_a_form_is_the_same_cell_with_the_variant_and_what_is_asked_of_it() -> None:
    for cell in with_limit(MATRIX.expand()[:2], 5):
        (_, same), (entry, other) = MATRIX.forms(cell)
        assert same is cell
        assert entry is SMALL
        assert other.workload == replace(cell.workload, generation={"temperature": 1})
        assert other.need == Need(gpus=1)
        assert other.fingerprint != cell.fingerprint


def test_cells_are_listed_in_the_forms_that_were_selected_for_them() -> None:
    first, second, *_ = MATRIX.expand()
    (_, _), (_, small) = MATRIX.forms(first)
    chosen: dict[str, str] = {first.fingerprint: small.fingerprint}
    chosen[second.fingerprint] = "one that is no more"
    assert MATRIX.expand_as(chosen)[:2] == [small, second]
    assert MATRIX.has_variants
    assert not replace(MATRIX, models=MATRIX.models[1:]).has_variants


def test_a_cell_of_a_phase_has_the_forms_of_its_own_matrix() -> None:
    part = replace(MATRIX, phase="e0", models=(ModelEntry(model=_model("full")),))
    whole = replace(MATRIX, parts=(part,))
    assert [len(whole.forms(cell)) for cell in whole.expand() if cell.phase == "e0"] == [1, 1]
