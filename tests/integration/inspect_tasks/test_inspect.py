"""Tasks of Inspect on models that the slot holds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from benchfleet.benchmarks.base import Score
from benchfleet.benchmarks.bootstrap import HIGH, LOW, RESAMPLES, STDERR
from benchfleet.benchmarks.inspect_tasks.benchmark import Inspect
from benchfleet.domain.cell import Model
from benchfleet.domain.question_draws import seed_of_draw
from benchfleet.errors import CellFailure
from benchfleet.models.base import Answer, Prompt
from benchfleet.models.transformers import TransformersAdapter
from kept_sessions import KeptSession
from packages import require
from tiny_models import saved_model

from .scripted_tasks import ROOT_MEAN_SQUARE, TASK, Scripted

require("inspect_ai")
pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that Inspect uses


@pytest.fixture
def session(tmp_path: Path) -> Any:
    """Makes a session of an adapter, with a scratch folder of its own."""

    def of(adapter: Any, source: str = "m", **settings: Any) -> KeptSession:
        model = Model(name="tiny", adapter="mock", source=source, digest="d")
        scratch = tmp_path / "scratch"
        return KeptSession(adapter=adapter, model=model, subset=None, scratch=scratch, **settings)

    return of


@pytest.fixture
def benchmark(tmp_path: Path) -> Any:
    """Makes the benchmark of the task above with arguments."""
    (tmp_path / "sums.py").write_text(TASK, "utf-8")

    def of(**args: Any) -> Inspect:
        return Inspect({"task": "sums.py@addition", "args": args, "folder": str(tmp_path)})

    return of


def scored(benchmark: Inspect, session: KeptSession) -> Score:
    return benchmark.run(session)


def test_a_task_is_scored_by_inspect_and_its_samples_are_recorded(
    benchmark: Any, session: Any
) -> None:
    adapter = Scripted()
    kept = session(adapter, limit=3, generation={"seed": 7, "max_new_tokens": 5})
    score = scored(benchmark(count=6), kept)
    assert (score.overall, list(score.per_sample)) == (1.0, [1.0, 1.0, 1.0])
    assert [one.predicted_answer for one in kept.samples] == ["0", "2", "4"]
    assert kept.samples[1].columns == {"input": "1 + 1 =", "target": "2"}
    assert kept.samples[0].measures == {"density": 0.5}
    assert adapter.asked[0].messages == (("user", "0 + 0 ="),)
    # The campaign's settings count more than the task's.
    assert adapter.generations[0] == {"max_new_tokens": 5, "temperature": 0.0, "seed": 7}
    (log,) = (kept.scratch / "inspect").iterdir()
    assert json.loads(log.read_text("utf-8"))["status"] == "success"


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_metric_that_is_no_mean_has_the_interval_of_scipy(
    tmp_path: Path, session: Any, epochs: int
) -> None:
    """Two equal answers to each question are drawn together, so they change nothing."""
    (tmp_path / "squares.py").write_text(ROOT_MEAN_SQUARE, "utf-8")
    params = {"task": "squares.py@squares", "args": {"epochs": epochs}, "folder": str(tmp_path)}
    score = Inspect(params).run(session(Scripted()))
    values = [n**2 % 7 for n in range(20)]

    def root_mean_square(chosen: Sequence[int]) -> float:
        return math.sqrt(sum(values[n] ** 2 for n in chosen) / len(chosen))

    expected = stats.bootstrap(
        (range(20),),
        root_mean_square,
        n_resamples=RESAMPLES,
        method="BCa",
        vectorized=False,
        rng=0,
    )
    interval = expected.confidence_interval
    numbers = [float(one) for one in (expected.standard_error, interval.low, interval.high)]
    assert score.overall == pytest.approx(root_mean_square(range(20)))
    assert [score.summary[name] for name in (STDERR, LOW, HIGH)] == pytest.approx(numbers)


def test_samples_with_errors_fail_the_cell_though_inspect_calls_it_a_success(
    benchmark: Any, session: Any, capsys: Any
) -> None:
    kept = session(Scripted())
    with pytest.raises(CellFailure, match=r"2 of 4 samples failed; sample 2: .*is broken"):
        scored(benchmark(bad=[2, 4]), kept)
    (log,) = (kept.scratch / "inspect").iterdir()
    assert json.loads(log.read_text("utf-8"))["status"] == "success"
    assert "this sample is broken" in capsys.readouterr().out


def test_a_stopped_task_asks_only_what_was_not_answered(benchmark: Any, session: Any) -> None:
    first, second = Scripted(), Scripted()
    kept = session(first, stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        scored(benchmark(), kept)
    assert len(first.asked) == 2
    resumed = session(second, recorded=kept.kept)
    resumed.scratch = resumed.scratch.with_name("second")
    scored(benchmark(), resumed)
    assert [one.messages[0][1] for one in second.asked] == ["2 + 2 =", "3 + 3 ="]
    assert [one.predicted_answer for one in resumed.samples] == ["0", "2", "0", "2"]


def test_a_failure_of_the_model_keeps_its_kind_and_ends_the_questions(
    benchmark: Any, session: Any
) -> None:
    adapter = Scripted(fails_at=1)
    with pytest.raises(CellFailure, match="too little") as caught:
        scored(benchmark(), session(adapter))
    assert (caught.value.kind, caught.value.is_retryable) == ("oom", True)
    assert len(adapter.asked) == 1


def test_questions_of_several_samples_become_a_batch(benchmark: Any, session: Any) -> None:
    class Batched(Scripted):
        batches: list[int] = []  # noqa: RUF012

        def answer(self, prompts: Sequence[Prompt], generation: Any) -> list[Answer]:
            self.batches.append(len(prompts))
            return super().answer(prompts, generation)

    adapter = Batched()
    scored(benchmark(), session(adapter, batch_size=4))
    assert adapter.batches == [4]


def test_a_task_with_tools_fails_by_name(benchmark: Any, session: Any) -> None:
    with pytest.raises(CellFailure, match=r"offers tools \(bash\), which adapters do not call"):
        scored(benchmark(tools=True), session(Scripted()))


def test_hostile_texts_are_recorded_as_they_are(benchmark: Any, session: Any) -> None:
    texts = ["\0", "<script>alert(1)</script>", "😀" * 1000, "[red]{x}[/]"]
    kept = session(Scripted())
    scored(benchmark(texts=texts), kept)
    assert [one.columns["input"] for one in kept.samples] == texts


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"task": "none.py"}, "none.py is not a file"),
        ({"task": "sums.py@additon"}, "no task 'additon'; did you mean 'addition'"),
        ({"task": "surely_not_installed/gsm8k"}, "pip install surely_not_installed"),
        ({"task": "sums.py", "files": ["*.txt"]}, "nothing matches"),
    ],
)
def test_a_task_that_is_not_there_is_a_mistake(
    benchmark: Any, tmp_path: Path, params: Mapping[str, Any], message: str
) -> None:
    benchmark()
    with pytest.raises(ValueError, match=message):
        Inspect({**params, "folder": str(tmp_path)}).data_digest(None)


def test_its_identity_is_the_content_and_not_the_folder(benchmark: Any, tmp_path: Path) -> None:
    before = benchmark().data_digest(None)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "sums.py").write_text(TASK, "utf-8")
    same = Inspect({"task": "sums.py@addition", "folder": str(elsewhere)})
    assert same.data_digest(None) == before
    (elsewhere / "sums.py").write_text(TASK + "\n", "utf-8")
    assert same.data_digest(None) != before


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransformersAdapter]:
    folder = saved_model(tmp_path_factory.mktemp("model") / "llama", "llama")
    adapter = TransformersAdapter(
        Model(
            name="tiny",
            adapter="transformers",
            source=str(folder),
            digest=TransformersAdapter.digest(str(folder)),
            model_kwargs={"dtype": "float32"},
        )
    )
    adapter.load()
    yield adapter
    adapter.unload()


def test_answers_equal_those_of_inspects_own_provider(
    benchmark: Any, session: Any, tiny: TransformersAdapter, tmp_path: Path, monkeypatch: Any
) -> None:
    from inspect_ai import eval as inspect_eval
    from inspect_ai.model import get_model

    kept = session(tiny, tiny.model.source)
    score = scored(benchmark(), kept)
    model = get_model(
        f"hf/{tiny.model.source}",
        memoize=False,
        device="cpu",
        do_sample=False,
        tokenizer_call_args={"add_special_tokens": False},  # the template writes <s> already
    )
    monkeypatch.chdir(tmp_path)
    (log,) = inspect_eval(
        "sums.py@addition",
        model=model,
        log_dir=str(tmp_path / "direct"),
        display="none",
        max_connections=1,
    )
    expected = [sample.output.completion for sample in log.samples or []]
    assert [one.predicted_answer for one in kept.samples] == expected
    assert len(set(expected)) > 1
    assert log.results is not None
    assert score.overall == log.results.scores[0].metrics["accuracy"].value


def test_several_answers_to_a_question_are_epochs(benchmark: Any, session: Any) -> None:
    adapter = Scripted()
    kept = session(adapter, samples_per_question=3, generation={"seed": 7, "temperature": 1})
    score = scored(benchmark(count=2), kept)
    assert [(one.question, one.draw) for one in kept.samples] == [
        (question, draw) for question in "12" for draw in range(3)
    ]
    assert len({one.id for one in kept.samples}) == len(score.per_sample) == 6
    assert {one["seed"] for one in adapter.generations} == {
        seed_of_draw(7, draw) for draw in range(3)
    }
