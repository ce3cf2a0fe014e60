"""lm-eval's tasks on the demo's model, beside lm-eval's own run of the same tasks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

datasets = pytest.importorskip("datasets")
pytest.importorskip("lm_eval")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

from benchfleet.benchmarks.base import Record, Score  # noqa: E402
from benchfleet.benchmarks.lm_eval.benchmark import LmEval  # noqa: E402
from benchfleet.domain.cell import AttentionStep, Config, Model  # noqa: E402
from benchfleet.errors import CellFailure  # noqa: E402
from benchfleet.models.base import Prompt  # noqa: E402
from benchfleet.models.transformers import TransformersAdapter  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples" / "recall"
LIMIT = 12
DENSE = Config(name="dense")
STREAMING = Config(
    name="streaming",
    attention=(AttentionStep(name="streaming", params={"sink_size": 4, "window_size": 200}),),
)
EVERYTHING = Config(
    name="everything", attention=(AttentionStep(name="local", params={"window_size": 9999}),)
)
# What a run of lm-eval gives for a document, whichever metrics the task has.
METRICS = {"recall_choice": "acc", "recall_generate": "exact_match", "shots": "acc_norm"}


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
    """Where `datasets` keeps what it has read, away from the user's own."""
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
        return benchmark.run(session), session

    return run


def own_run(task: str, tasks: Path, batch_size: int, **given: Any) -> Mapping[str, Any]:
    """lm-eval's own results, from the model's folder; run in the folder of the data."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    before = os.getcwd()
    os.chdir(tasks)  # where lm-eval looks for data by a relative path
    try:
        found = lm_eval.simple_evaluate(
            model=HFLM(
                pretrained=str(EXAMPLES / "model"),
                dtype="float32",
                device="cuda" if torch.cuda.is_available() else "cpu",
                batch_size=batch_size,
            ),
            tasks=[task],
            task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
            bootstrap_iters=0,
            **given,
        )
    finally:
        os.chdir(before)
    assert found is not None
    return dict(found)


@pytest.mark.parametrize(
    ("task", "batch_size", "shots"),
    [
        ("recall_choice", 1, None),
        ("recall_choice", 4, None),
        ("recall_generate", 1, None),
        ("recall_generate", 4, None),
        ("shots", 1, 2),
        ("shots", 4, 2),
    ],
)
def test_scores_and_samples_equal_lm_evals_own(
    evaluated: Any, tasks: Path, task: str, batch_size: int, shots: int | None
) -> None:
    own = own_run(task, tasks, batch_size, limit=LIMIT, num_fewshot=shots)
    score, session = evaluated(task, batch_size=batch_size, params={"num_fewshot": shots})
    metric = METRICS[task]
    assert score.overall == own["results"][task][f"{metric},none"]
    for name, value in score.tasks.items():
        assert value == own["results"][task][f"{name},none"]
    samples = sorted(own["samples"][task], key=lambda sample: int(sample["doc_id"]))
    assert list(score.per_sample) == [sample[metric] for sample in samples]
    records = session.samples
    assert [record.index for record in records] == [sample["doc_id"] for sample in samples]
    for record, sample in zip(records, samples, strict=True):
        assert {name: record.columns[name] for name in sample["doc"]} == sample["doc"]
        if task == "recall_generate":
            assert record.predicted_answer == sample["resps"][0][0]
            assert record.columns["target"] == sample["target"]
        else:
            likelihoods = [answers[0][0] for answers in sample["resps"]]
            assert record.columns["loglikelihoods"] == likelihoods
    assert session.expected == LIMIT
    assert score.summary["num_fewshot"] == own["n-shot"][task] == (shots or 0)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_texts_of_many_windows_are_as_likely_as_lm_eval_finds_them(
    evaluated: Any, tasks: Path, batch_size: int
) -> None:
    own = own_run("rolling", tasks, batch_size, limit=LIMIT)
    score, session = evaluated("rolling", batch_size=batch_size)
    assert -score.overall == own["results"]["rolling"]["bits_per_byte,none"]
    samples = sorted(own["samples"]["rolling"], key=lambda sample: int(sample["doc_id"]))
    found = [record.columns["loglikelihoods"] for record in session.samples]
    assert found == [sample["resps"][0] for sample in samples]


def test_another_repeat_draws_other_examples_and_the_same_one_the_same(evaluated: Any) -> None:
    def likelihoods(repeat: int) -> list[Any]:
        _, session = evaluated("shots", repeat=repeat, limit=3, params={"num_fewshot": 2})
        return [record.columns["loglikelihoods"] for record in session.samples]

    assert likelihoods(0) == likelihoods(0)
    assert likelihoods(0) != likelihoods(1)


@pytest.mark.parametrize(
    ("temperature", "own_settings"),
    [(0, {}), (1.5, {"temperature": 1.5, "do_sample": True, "top_k": 20})],
)
def test_generation_settings_go_over_the_tasks_own(
    evaluated: Any, tasks: Path, temperature: float, own_settings: dict[str, Any]
) -> None:
    task, gen_kwargs = "recall_generate", {"max_gen_toks": 6, "until": ["q"], **own_settings}
    own = own_run(task, tasks, 1, limit=2, gen_kwargs=gen_kwargs)
    generation = {"seed": 7, "max_new_tokens": 6, "stop": ["q"], "temperature": temperature}
    if temperature:
        generation["top_k"] = 20
    texts = {sample["doc_id"]: sample["resps"][0][0] for sample in own["samples"][task]}
    _, session = evaluated(task, limit=2, generation=generation)
    assert {record.index: record.predicted_answer for record in session.kept} == texts
    assert max(map(len, texts.values())) > 1
    assert all(r.completion_tokens == len(r.predicted_answer) for r in session.kept)
    _, other = evaluated(task, limit=2, generation={**generation, "seed": 8})
    again = {record.index: record.predicted_answer for record in other.kept}
    assert (again == texts) is not bool(temperature)


@pytest.mark.parametrize("task", ["recall_choice", "recall_generate"])
def test_a_config_that_keeps_everything_scores_as_dense_does(evaluated: Any, task: str) -> None:
    dense, plain = evaluated(task, limit=4)
    score, session = evaluated(task, limit=4, config=EVERYTHING)
    assert score.per_sample == dense.per_sample
    assert [r.predicted_answer for r in session.kept] == [r.predicted_answer for r in plain.kept]
    assert all(record.measures["density"] == 1.0 for record in session.kept)
    assert (dense.summary["attention"], score.summary["attention"]) == (
        "dense",
        "sparse in every pass",
    )


def test_a_sparse_config_is_sparse_in_every_pass_and_its_density_is_the_masks(
    evaluated: Any,
) -> None:
    score, session = evaluated("recall_choice", limit=3, config=STREAMING)
    assert score.overall < 1.0
    # Of the passes over <s>, 512 characters, ``?`` and the key, each query sees the 204 keys of
    # sinks and window at most.
    length = 1 + 512 + 2
    seen = [min(place, 204) / place for place in range(1, length + 1)]
    for record in session.kept:
        assert record.measures["density"] == pytest.approx(sum(seen) / length)
        assert record.measures["attention_error"] > 0


def test_padding_before_a_text_is_counted_in_no_density(evaluated: Any, tasks: Path) -> None:
    uneven = tasks / "uneven"
    uneven.mkdir(exist_ok=True)
    rows = [json.loads(line) for line in (tasks / "recall.jsonl").read_text().splitlines()[:2]]
    rows[0]["context"] = rows[0]["context"][:100]
    (uneven / "recall.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (uneven / "uneven.yaml").write_text(
        (tasks / "recall_generate.yaml")
        .read_text()
        .replace("include: ", "include: ../")
        .replace("task: recall_generate", "task: uneven")
        + "dataset_kwargs: {data_files: {test: recall.jsonl}}\n"
    )
    _, alone = evaluated("uneven", limit=None, config=STREAMING)
    _, both = evaluated("uneven", limit=None, config=STREAMING, batch_size=2)
    lengths = [103, 515]
    apart = {record.index: record.measures["density"] for record in alone.kept}
    assert apart[0] == 1.0
    together = sum(apart[n] * lengths[n] for n in (0, 1)) / sum(lengths)
    assert [r.measures["density"] for r in both.kept] == pytest.approx([together] * 2)


def test_the_adapter_answers_as_before_once_its_model_is_given_back(
    evaluated: Any, adapter: TransformersAdapter
) -> None:
    prompt = Prompt(context="aaK7 tt o  Q3 " * 40, question="?K")
    adapter.configure(STREAMING)
    (before,) = adapter.answer([prompt], {"max_new_tokens": 4})
    evaluated("recall_generate", limit=2, config=STREAMING, batch_size=2)
    (after,) = adapter.answer([prompt], {"max_new_tokens": 4})
    assert (after.text, after.measures) == (before.text, before.measures)


@pytest.mark.parametrize("task", ["recall_choice", "recall_generate"])
def test_a_stop_ends_the_task_where_it_is(evaluated: Any, task: str) -> None:
    kept: list[Record] = []
    with pytest.raises(KeyboardInterrupt):
        evaluated(task, stop_after=3, kept=kept)
    assert len(kept) == 3


def told(record: Record) -> dict[str, Any]:
    """A record without what is measured anew each time."""
    return {**record.to_dict(), "seconds": 0}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each call of the model had."""
    from lm_eval.models.huggingface import HFLM

    made: list[int] = []
    for name in ("_model_call", "_model_generate"):
        own = getattr(HFLM, name)

        def counted(self: Any, *args: Any, own: Any = own, **kwargs: Any) -> Any:
            made.append(len(args[0] if args else kwargs["context"]))
            return own(self, *args, **kwargs)

        monkeypatch.setattr(HFLM, name, counted)
    return made


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("task", ["recall_choice", "recall_generate", "shots", "rolling"])
def test_a_run_that_is_stopped_again_and_again_ends_as_one_that_was_not(
    evaluated: Any, calls: list[int], task: str, batch_size: int
) -> None:
    whole, session = evaluated(task, batch_size=batch_size)
    alone, recorded = list(calls), []
    calls.clear()
    for stop_after in (3, 1, 6):
        kept: list[Record] = []
        with pytest.raises(KeyboardInterrupt):
            evaluated(
                task,
                batch_size=batch_size,
                recorded=recorded,
                stop_after=stop_after,
                kept=kept,
            )
        recorded = [*recorded, *(Record.from_dict(json.loads(line)) for line in lines(kept))]
    resumed, last = evaluated(task, batch_size=batch_size, recorded=recorded)
    assert resumed == whole
    everything = {record.index: told(record) for record in (*recorded, *last.kept)}
    assert everything == {record.index: told(record) for record in session.kept}
    assert len(recorded) + len(last.kept) == len(session.kept)
    assert sum(calls) <= sum(alone) + 3 * batch_size  # the batch that each stop fell into


def lines(records: Sequence[Record]) -> list[str]:
    return [json.dumps(record.to_dict(), allow_nan=False) for record in records]


@pytest.mark.parametrize("batch_size", [1, 3])
def test_answers_that_are_drawn_go_on_with_the_same_random_numbers(
    evaluated: Any, calls: list[int], batch_size: int
) -> None:
    drawn = {"seed": 7, "max_new_tokens": 6, "temperature": 1.5, "top_k": 20}
    given = {"generation": drawn, "batch_size": batch_size}
    whole, session = evaluated("recall_generate", **given)
    recorded: list[Record] = []
    for stop_after in (4, 3):
        kept: list[Record] = []
        with pytest.raises(KeyboardInterrupt):
            evaluated(
                "recall_generate", recorded=recorded, stop_after=stop_after, kept=kept, **given
            )
        recorded = [*recorded, *(Record.from_dict(json.loads(line)) for line in lines(kept))]
    calls.clear()
    resumed, last = evaluated("recall_generate", recorded=recorded, **given)
    assert resumed == whole
    found = {record.index: told(record) for record in (*recorded, *last.kept)}
    assert found == {record.index: told(record) for record in session.kept}
    assert sum(calls) < LIMIT
    assert len({record.predicted_answer for record in session.kept}) > 2


def test_a_task_of_which_all_is_recorded_asks_nothing(evaluated: Any, calls: list[int]) -> None:
    whole, session = evaluated("shots", batch_size=4)
    calls.clear()
    again, nothing = evaluated("shots", batch_size=4, recorded=session.kept)
    assert (again, calls, nothing.kept) == (whole, [], [])


def test_answers_to_other_examples_are_not_taken(evaluated: Any) -> None:
    """The same documents, asked after other few-shot examples."""
    _, first = evaluated("shots", limit=3, params={"num_fewshot": 2})
    whole, session = evaluated("shots", limit=3, params={"num_fewshot": 2}, repeat=1)
    score, again = evaluated(
        "shots", limit=3, params={"num_fewshot": 2}, repeat=1, recorded=first.kept
    )
    assert score == whole
    assert list(map(told, again.kept)) == list(map(told, session.kept))


def test_a_rank_left_in_the_environment_loses_no_results(
    evaluated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    score, _ = evaluated("recall_choice", limit=2)
    assert len(score.per_sample) == 2
    assert os.environ["LOCAL_RANK"] == "1"


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"generation": {"beams": 2}}, "user_error", "no generation setting 'beams'"),
        ({"params": {"apply_chat_template": True}}, "user_error", "has no chat template"),
        ({"params": {"metric": "f1"}}, "user_error", "has no metric 'f1'; there are acc"),
    ],
)
def test_what_cannot_be_is_a_failure_with_what_to_do(
    evaluated: Any, given: dict[str, Any], kind: str, message: str
) -> None:
    with pytest.raises(CellFailure, match=message) as raised:
        evaluated("recall_choice", limit=1, **given)
    assert (raised.value.stage, raised.value.kind) == ("benchmark", kind)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``HF_HUB_OFFLINE=1`` has it, which is read once alone."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def test_a_task_of_lm_evals_own_without_its_data_says_what_to_do(
    evaluated: Any, offline: None
) -> None:
    with pytest.raises(
        CellFailure, match=r"gsm8k: the data set (openai/)?gsm8k .* is not"
    ) as raised:
        evaluated("gsm8k")
    assert (raised.value.stage, raised.value.kind) == ("benchmark", "dataset_missing")


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("dataset_path: nobody/rows-gone", "dataset_missing", "where the network can be reached"),
        ("dataset_path: json\ndoc_to_text: !function gone_module.f", "missing_extra", "gone_mod"),
        ("dataset_path: json\noutput_type: sing", "user_error", "broken cannot be built"),
    ],
)
def test_a_task_that_cannot_be_built_says_why(
    evaluated: Any, tasks: Path, offline: None, said: str, kind: str, message: str
) -> None:
    (tasks / "broken.yaml").write_text(f"task: broken\ntest_split: test\n{said}\n")
    with pytest.raises(CellFailure, match=message) as raised:
        evaluated("broken")
    assert (raised.value.stage, raised.value.kind) == ("benchmark", kind)
