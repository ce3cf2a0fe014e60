"""Rows in each data set's published format, and tiny models with random weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from benchfleet.benchmarks import base
from benchfleet.benchmarks.base import Score, benchmark_class
from benchfleet.domain.cell import Model
from benchfleet.models.transformers import TransformersAdapter
from kept_sessions import KeptSession, asked_in_parts
from tiny_models import saved_model


def loaded(folder: Path) -> TransformersAdapter:
    """The adapter of a saved model, with the model in memory."""
    source = str(folder)
    adapter = TransformersAdapter(
        Model(
            name=folder.name,
            adapter="transformers",
            source=source,
            digest=TransformersAdapter.digest(source),
            model_kwargs={"dtype": "float32"},
        )
    )
    adapter.load()
    return adapter


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a tiny model of an architecture, made once."""
    folder = tmp_path_factory.mktemp("models")

    def of(architecture: str) -> Path:
        place = folder / architecture
        return place if place.exists() else saved_model(place, architecture)

    return of


@pytest.fixture(scope="module")
def llama(models: Any) -> Iterator[TransformersAdapter]:
    adapter = loaded(models("llama"))
    yield adapter
    adapter.unload()


@pytest.fixture(scope="session", autouse=True)
def data_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where `datasets` keeps what it reads, away from the user's own."""
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("lm_eval")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))
        yield


def answered(
    name: str, adapter: Any, subset: str | None, params: Mapping[str, Any], **given: Any
) -> tuple[Score, KeptSession]:
    """Runs a cell of a benchmark: its score, and the session with what it recorded."""
    session = KeptSession(adapter=adapter, model=adapter.model, subset=subset, **given)
    adapter.configure(session.config)
    benchmark = benchmark_class(name)({"folder": "/", **params})
    return benchmark.run(cast(base.Session, session)), session


def compare_parts(run: Any, count: int) -> None:
    """The parts against the whole: requests, answers and score are equal."""
    whole, session = run()
    records, asked = asked_in_parts(run, count)
    assert asked == len(session.samples) > count
    alike = [(r.index, r.id, r.request, r.predicted_answer, r.resume) for r in session.samples]
    assert [(r.index, r.id, r.request, r.predicted_answer, r.resume) for r in records] == alike
    joined, last = run(recorded=records)
    assert joined == whole
    assert last.kept == []
