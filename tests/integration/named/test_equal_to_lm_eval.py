"""Benchmarks by name beside lm-eval's own run of the same tasks: same model, limit and batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import benchmark_rows as rows
from benchfleet.benchmarks.base import benchmark_class
from benchfleet.benchmarks.lm_eval.local_data import LocalData, redirected
from benchfleet.benchmarks.lm_eval.tasks import built_in_file, read_settings
from tiny_models import ARCHITECTURES

from .conftest import answered, loaded

pytestmark = pytest.mark.filterwarnings("ignore")
NEW_TOKENS = 8


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """lm-eval's own runs list no packages of this machine, which takes longer than their scores."""
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)


def own_run(
    name: str, subset: str | None, data: Path, model: Path, **given: Any
) -> list[Mapping[str, Any]]:
    """lm-eval's own results of each task of a cell, from the model's folder."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    benchmark: Any = benchmark_class(name)({"folder": "/", "data": str(data)})
    results: list[Mapping[str, Any]] = []
    for part in benchmark.parts(subset):
        own = benchmark.own(part.task)
        file = own.file if own else built_in_file(part.task)
        lm = HFLM(pretrained=str(model), dtype="float32", device="cpu", batch_size=1)
        with redirected(LocalData(data), benchmark.remotes(part)):
            run = lm_eval.simple_evaluate(
                model=lm,
                tasks=[str(file)],
                task_manager=TaskManager(include_defaults=False, metadata=dict(part.metadata)),
                bootstrap_iters=0,
                gen_kwargs={"max_gen_toks": NEW_TOKENS},
                **given,
            )
        assert run is not None
        results.append({**run["results"][part.task], "samples": run["samples"][part.task]})
    return results


def responses(results: Sequence[Mapping[str, Any]]) -> list[str]:
    texts = []
    for run in results:
        first = {int(sample["doc_id"]): sample["resps"][0][0] for sample in run["samples"]}
        texts += [first[number] for number in sorted(first)]
    return texts


@pytest.mark.parametrize(
    ("architecture", "batch_size"),
    [*((one, 1) for one in ARCHITECTURES), ("llama", 2), ("gemma2", 2)],
)
def test_each_architecture_answers_as_in_lm_eval(
    models: Any, tmp_path: Path, architecture: str, batch_size: int
) -> None:
    data = rows.write(tmp_path, {"qasper/test": rows.longbench("qasper")}, parquet=True)
    model = models(architecture)
    own = own_run("longbench", "qasper", data, model)
    adapter = loaded(model)
    score, session = answered(
        "longbench",
        adapter,
        "qasper",
        {"data": str(data)},
        batch_size=batch_size,
        generation={"max_new_tokens": NEW_TOKENS},
    )
    adapter.unload()
    texts = [record.predicted_answer for record in session.kept]
    assert texts == responses(own)
    assert len(set(texts)) > 1 or architecture == "gemma2"
    assert score.overall == 100 * own[0]["score,none"]
    assert session.expected == 3


LONGBENCH = benchmark_class("longbench")({}).subsets()
LONGBENCH_E = benchmark_class("longbench_e")({}).subsets()
INFINITE = {
    **{n: n for n in ("passkey", "kv_retrieval", "number_string", "code_run", "code_debug")},
    "math_find": "math_find",
    "longbook_qa_eng": "longbook_qa_en",
    "longdialogue_qa_eng": "longdialogue_qa_en",
    "longbook_choice_eng": "longbook_choice_en",
    "longbook_sum_eng": "longbook_sum_en",
    "longbook_qa_chn": "longbook_qa_chn",
}
CASES: list[tuple[str, str | None, str, Mapping[str, rows.Rows]]] = [
    *(
        ("longbench", n, "score", {f"{n}/test-00000-of-00001": rows.longbench(n)})
        for n in LONGBENCH
    ),
    ("longbench_e", "qasper", "score", {"data/qasper_e": rows.longbench("qasper")}),
    *(("infinite_bench", n, "score", {f: rows.infinite_bench(n)}) for n, f in INFINITE.items()),
    ("babilong", "qa2_4k", "acc", {"4k/qa2-00000-of-00001": rows.babilong()}),
    ("longbench_v2", "0shot", "acc", {"train": rows.longbench_v2()}),
    ("longbench_v2", "cot", "acc", {"train": rows.longbench_v2()}),
    *((name, None, "exact_match", files) for name, (_, files) in rows.DAILY.items()),
]


@pytest.mark.parametrize("subset", LONGBENCH_E)
def test_tasks_of_longbench_e_differ_from_those_of_longbench_by_their_data_alone(
    subset: str,
) -> None:
    """So one of them beside lm-eval's own run stands for all."""
    own: list[Mapping[str, Any]] = []
    for name in ("longbench", "longbench_e"):
        benchmark: Any = benchmark_class(name)({})
        (part,) = benchmark.parts(subset)
        file = built_in_file(part.task)
        assert file is not None
        own.append({**read_settings(file)[0], "remote": str(benchmark.remotes(part)[0])})
    plain, even = own
    differ = {key for key in {*plain, *even} if plain.get(key) != even.get(key)}
    assert differ == {"task", "tag", "dataset_name", "remote"}
    assert even["remote"] == plain["remote"].replace(f"config {subset}", f"config {subset}_e")


@pytest.mark.parametrize(("name", "subset", "metric", "files"), CASES)
def test_each_benchmark_scores_and_answers_as_lm_evals_tasks(
    llama: Any,
    tmp_path: Path,
    name: str,
    subset: str | None,
    metric: str,
    files: Mapping[str, rows.Rows],
) -> None:
    data = rows.write(tmp_path, files)
    limit = 2
    own = own_run(name, subset, data, Path(llama.model.source), limit=limit)
    score, session = answered(
        name,
        llama,
        subset,
        {"data": str(data)},
        limit=limit,
        generation={"max_new_tokens": NEW_TOKENS},
    )
    kept = sorted(session.kept, key=lambda record: record.index)
    assert [record.predicted_answer for record in kept] == responses(own)
    assert [record.index for record in kept] == list(range(limit * len(own)))
    values = [next(v for k, v in run.items() if k.partition(",")[0] == metric) for run in own]
    scale = benchmark_class(name).scale
    assert score.overall == pytest.approx(scale * sum(values) / len(values))
