"""lm-eval's tasks on the demo's model, in a session that keeps what is recorded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from benchfleet.benchmarks import base
from benchfleet.benchmarks.base import Record, Score
from benchfleet.benchmarks.lm_eval.benchmark import LmEval
from benchfleet.domain.cell import Config, Model
from benchfleet.models.transformers import TransformersAdapter

EXAMPLES = Path(__file__).parents[3] / "examples" / "recall"
LIMIT = 12
DENSE = Config(name="dense")


@dataclass
class Session:
    """What the slot gives a benchmark; `stop_after` records it ends."""

    adapter: TransformersAdapter
    model: Model
    subset: str
    config: Config = DENSE
    seed: int = 7
    repeat: int = 0
    limit: int | None = LIMIT
    batch_size: int = 1
    generation: Mapping[str, Any] = field(default_factory=dict)
    recorded: Sequence[Record] = ()
    stop_after: int | None = None
    kept: list[Record] = field(default_factory=list)
    expected: int | None = None

    @property
    def model_path(self) -> str:
        return self.model.source

    @property
    def samples(self) -> list[Record]:
        """Without what is kept for the next attempt alone."""
        kept = sorted(self.kept, key=lambda record: record.index)
        return [record for record in kept if record.index >= 0]

    def record(self, record: Record) -> None:
        json.dumps(record.to_dict(), allow_nan=False)
        self.kept.append(record)
        self.check_stop()

    def check_stop(self) -> None:
        if len(self.kept) == self.stop_after:
            raise KeyboardInterrupt

    def expect(self, total: int) -> None:
        self.expected = total

    def asking(self, count: int, *, sample: int | None = None) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.fixture(scope="module", autouse=True)
def data_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where `datasets` keeps what it reads, away from the user's own; skips where lm-eval lacks."""
    pytest.importorskip("lm_eval")
    datasets = pytest.importorskip("datasets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))
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
