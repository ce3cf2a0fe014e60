"""lm-eval's tasks on the demo's model, beside lm-eval's own run of the same tasks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from benchfleet.benchmarks import base
from benchfleet.benchmarks.lm_eval.benchmark import LmEval
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure
from benchfleet.models.base import Prompt
from benchfleet.models.transformers import TransformersAdapter

from .conftest import EXAMPLES, LIMIT, Session

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
STREAMING = Config(
    name="streaming",
    attention=(AttentionStep(name="streaming", params={"sink_size": 4, "window_size": 200}),),
)
EVERYTHING = Config(
    name="everything", attention=(AttentionStep(name="local", params={"window_size": 9999}),)
)
# What a run of lm-eval gives for a document, whichever metrics the task has.
METRICS = {"recall_choice": "acc", "recall_generate": "exact_match", "shots": "acc_norm"}


def own_run(
    task: str,
    tasks: Path,
    batch_size: int,
    folder: str = str(EXAMPLES / "model"),
    add_bos_token: bool | None = None,
    **given: Any,
) -> Mapping[str, Any]:
    """lm-eval's own results, from the model's folder; run in the folder of the data."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    before = os.getcwd()
    os.chdir(tasks)  # where lm-eval looks for data by a relative path
    try:
        found = lm_eval.simple_evaluate(
            model=HFLM(
                pretrained=folder,
                dtype="float32",
                add_bos_token=add_bos_token,
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


def test_a_rank_left_in_the_environment_loses_no_results(
    evaluated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    score, _ = evaluated("recall_choice", limit=2)
    assert len(score.per_sample) == 2
    assert os.environ["LOCAL_RANK"] == "1"


def test_a_bos_is_added_where_the_tokenizer_adds_none(
    tasks: Path, tmp_path: Path, model: Model
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(EXAMPLES / "model", folder)
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    file.write_text(json.dumps({**tokenizer, "post_processor": None}))
    digest = TransformersAdapter.digest(str(folder))
    given = replace(model, source=str(folder), digest=digest)
    adapter = TransformersAdapter(given)
    adapter.load()
    scores = []
    for add in (None, True, False):
        session = Session(adapter=adapter, model=given, subset="rolling")
        adapter.configure(session.config)
        params = {"folder": str(tasks.parent), "include_path": "tasks", "add_bos_token": add}
        scores.append(LmEval(params).run(cast(base.Session, session)).overall)
        own = own_run("rolling", tasks, 1, str(folder), add, limit=LIMIT)
        assert scores[-1] == -own["results"]["rolling"]["bits_per_byte,none"]
    adapter.unload()
    assert scores[0] == scores[2] != scores[1]


def test_logits_that_are_no_numbers_are_a_bad_result(
    evaluated: Any, adapter: TransformersAdapter
) -> None:
    weight = adapter._loaded.model.get_output_embeddings().weight.detach()  # type: ignore[union-attr]
    before = float(weight[0, 0])
    try:
        for task in ("recall_choice", "recall_generate", "rolling"):
            weight[0, 0] = float("nan")
            with pytest.raises(CellFailure, match="logits are not numbers") as caught:
                evaluated(task, limit=2)
            assert caught.value.kind == "bad_result"
    finally:
        weight[0, 0] = before


def test_several_answers_to_a_question_have_seeds_of_their_own(evaluated: Any) -> None:
    drawn = {"max_new_tokens": 4, "temperature": 1.5}
    score, session = evaluated("recall_generate", samples_per_question=3, generation=drawn)
    samples = session.samples
    assert len(samples) == session.expected == 3 * LIMIT
    assert [one.draw for one in samples[:3]] == [0, 1, 2]
    assert len({one.question for one in samples}) == LIMIT
    assert len({one.id for one in samples}) == 3 * LIMIT
    texts = [tuple(one.predicted_answer for one in samples[n : n + 3]) for n in range(0, 36, 3)]
    assert any(len(set(some)) > 1 for some in texts)
    assert score.overall == pytest.approx(sum(score.per_sample) / len(score.per_sample))
    first, _ = evaluated("recall_generate", generation=drawn)
    assert list(score.per_sample)[::3] == list(first.per_sample)
    again, _ = evaluated("recall_generate", samples_per_question=3, generation=drawn)
    assert again == score
    assert session.notices == []


def test_equal_answers_are_named_and_likelihoods_refused(evaluated: Any) -> None:
    _, session = evaluated("recall_generate", samples_per_question=2, limit=2)
    (notice,) = session.notices
    assert "2 answers to each question are the same: the task is asked at temperature 0" in notice
    with pytest.raises(CellFailure, match="recall_choice compares likelihoods, which are the same"):
        evaluated("recall_choice", samples_per_question=2, limit=2)


def test_a_task_of_one_token_cuts_no_answer_off(evaluated: Any) -> None:
    _, session = evaluated("recall_generate")  # its own max_gen_toks is 1
    assert {one.finish for one in session.samples} == {"stop"}
    _, session = evaluated("recall_generate", generation={"max_new_tokens": 1})  # the campaign's
    assert {one.finish for one in session.samples} == {"length"}
