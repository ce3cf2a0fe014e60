"""lm-eval's tasks on the demo's model, in a session that keeps what is recorded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from benchfleet.benchmarks import base
from benchfleet.benchmarks.base import Score
from benchfleet.benchmarks.lm_eval.benchmark import LmEval
from benchfleet.domain.cell import Model
from benchfleet.models.transformers import TransformersAdapter
from kept_sessions import KeptSession

EXAMPLES = Path(__file__).parents[3] / "examples" / "recall"
LIMIT = 12


@dataclass
class Session(KeptSession):
    """What the slot gives a benchmark, of few samples."""

    limit: int | None = LIMIT


@pytest.fixture(scope="module", autouse=True)
def data_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where `datasets` keeps what it reads, away from the user's own; skips where lm-eval lacks.
    lm-eval's own runs list no packages of this machine, which takes longer than their scores."""
    pytest.importorskip("lm_eval")
    datasets = pytest.importorskip("datasets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))
        patch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)
        yield


@pytest.fixture(scope="module")
def model() -> Model:
    source = str(EXAMPLES / "model")
    return Model(
        name="tiny",
        adapter="transformers",
        source=source,
        digest=TransformersAdapter.digest(source),
        model_kwargs={"dtype": "float32"},
    )


@pytest.fixture(scope="module")
def adapter(model: Model) -> Iterator[TransformersAdapter]:
    loaded = TransformersAdapter(model)
    loaded.load()
    yield loaded
    loaded.unload()


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped tasks, and one with few-shot examples, functions and choices of any length."""
    folder = tmp_path_factory.mktemp("lm") / "tasks"
    shutil.copytree(EXAMPLES / "tasks", folder)
    (folder / "utils.py").write_text(
        "def text(doc):\n    return doc['context'][-20:] + doc['question']\n"
    )
    (folder / "shots.yaml").write_text(
        "include: recall_choice.yaml\n"
        "task: shots\n"
        "validation_split: test\n"
        "doc_to_text: !function utils.text\n"
        "doc_to_choice: ['0', '1 o', '2 to', '3', '4', '5', '6', '7 ten', '8', '9']\n"
        "metric_list:\n"
        "  - {metric: acc, aggregation: mean, higher_is_better: true}\n"
        "  - {metric: acc_norm, aggregation: mean, higher_is_better: true}\n"
    )
    (folder / "utils.py").write_text(
        (folder / "utils.py").read_text()
        + "def page(doc):\n    return doc['context'] * (1 + int(doc['answer']) % 4)\n"
    )
    (folder / "rolling.yaml").write_text(
        "include: recall_choice.yaml\n"
        "task: rolling\n"
        "output_type: loglikelihood_rolling\n"
        "doc_to_text: ''\n"
        "doc_to_target: !function utils.page\n"
        "doc_to_choice: null\n"
        "metric_list:\n"
        "  - {metric: bits_per_byte}\n"
    )
    (folder / "correlation.yaml").write_text(
        "include: recall_choice.yaml\n"
        "task: correlation\n"
        "doc_to_choice: ['0', '1']\n"
        "doc_to_target: !function utils.parity\n"
        "metric_list:\n"
        "  - {metric: mcc}\n"
        "  - {metric: f1}\n"
    )
    (folder / "utils.py").write_text(
        (folder / "utils.py").read_text() + "def parity(doc):\n    return int(doc['answer']) % 2\n"
    )
    return folder


@pytest.fixture
def evaluated(adapter: TransformersAdapter, model: Model, tasks: Path) -> Any:
    """Runs a task as a cell does: the score, and the session with what it recorded."""

    def run(task: str, *, params: Any = None, **given: Any) -> tuple[Score, Session]:
        session = Session(adapter=adapter, model=model, subset=task, **given)
        adapter.configure(session.config)
        benchmark = LmEval({"folder": str(tasks.parent), "include_path": "tasks", **(params or {})})
        return benchmark.run(cast(base.Session, session)), session

    return run
