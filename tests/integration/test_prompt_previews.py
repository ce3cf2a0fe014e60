"""`plan --prompts` shows the very tokens and requests that a run of the cell asks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import benchmark_rows as rows
from benchfleet.benchmarks import base
from benchfleet.campaign.load import load_campaign
from benchfleet.domain.cell import Cell
from benchfleet.errors import CellFailure
from benchfleet.models.base import adapter_class
from benchfleet.models.transformers import TransformersAdapter
from benchfleet.slot.cell_checks import build_benchmark
from benchfleet.slot.preview import preview
from benchfleet.study import open_study
from benchfleet.testing.simulated_server import SimulatedServer
from kept_sessions import KeptSession
from nltk_folder import with_punkt
from tiny_models import saved_model

pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that harnesses use
TASKS = Path(__file__).parents[2] / "examples" / "recall" / "tasks"
CELLS = """\
campaign: previews
defaults: {generation: {max_new_tokens: 1}}
matrix:
  models:
    - {name: tiny, path: %(model)s}
    - {name: served, adapter: openai, model: simulated, url: "%(url)s/v1",
       model_kwargs: {tokenizer: %(model)s, system: "Be kind."}}
    - {name: unknown, adapter: openai, model: simulated, url: "%(url)s/v1"}
    - {name: plain, adapter: openai, model: simulated, url: "%(url)s/v1", api: completions,
       model_kwargs: {tokenizer: %(model)s}}
  configs:
    dense: null
    chat: {chat: {system: "Answer with one word."}}
  benchmarks:
    - mock_benchmark
    - recall: {subsets: [64], samples: 4}
    - lm_eval: {tasks: [recall_generate], include_path: tasks, num_fewshot: 2,
                apply_chat_template: true, limit: 4}
    - lm_eval: {tasks: [recall_choice], include_path: tasks, num_fewshot: 2, limit: 2}
    - inspect: {name: sums, task: "sums.py@sums"}
    - python: {name: mine, call: "mine:evaluate"}
    - gsm8k: {data: gsm8k, limit: 2}
    - longbench: {subsets: [qasper], data: longbench, limit: 2}
    - ruler: {subsets: [fwe], lengths: [1024], data: ruler, limit: 2}
    - serving: {requests: 2}
    - command: {name: script, argv: [python, mine.py, "{result}"]}
  exclude:
    - {models: [unknown, served], benchmarks: lm_eval, subsets: recall_choice}
    - {models: plain, configs: chat}
    - {configs: chat, benchmarks: [lm_eval, gsm8k, longbench, ruler]}
    - {models: [tiny, plain, served], benchmarks: serving}
    - {models: [unknown, plain, served], benchmarks: [gsm8k, longbench, ruler]}
"""
MINE = """\
def evaluate(adapter):
    first = adapter.generate(["one?", "two?"])
    return {"score": float(adapter.generate("and then " + first[0]) == "x")}
"""
SUMS = """\
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, system_message


@task
def sums():
    rows = [Sample(input=f"{n} + {n} =", target=str(2 * n)) for n in range(5)]
    return Task(dataset=rows, solver=[system_message("Add."), generate()], scorer=includes())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[SimulatedServer]:
    with SimulatedServer() as server:
        server.respond = lambda body: "x"
        yield server


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    return saved_model(tmp_path_factory.mktemp("model"), "llama")


@pytest.fixture(scope="module")
def cells(
    tmp_path_factory: pytest.TempPathFactory, model: Path, server: SimulatedServer
) -> Callable[[str], Cell]:
    """A cell of the campaign by its path."""
    pytest.importorskip("lm_eval")
    folder = tmp_path_factory.mktemp("campaign")
    shutil.copytree(TASKS, folder / "tasks")
    (folder / "mine.py").write_text(MINE, "utf-8")
    rows.write(folder / "gsm8k", rows.DAILY["gsm8k"][1])
    rows.write(folder / "longbench", {"qasper": rows.longbench("qasper")})
    with_punkt(folder / "ruler")
    (folder / "sums.py").write_text(SUMS, "utf-8")
    (folder / "study.yaml").write_text(CELLS % {"model": model, "url": server.url}, "utf-8")
    found = {
        cell.id.partition("+")[0]: cell
        for cell in open_study(load_campaign(folder / "study.yaml")).cells()
    }
    return found.__getitem__


@pytest.fixture(scope="module", autouse=True)
def data_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    datasets = pytest.importorskip("datasets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))
        yield


def run(cell: Cell, adapter: Any, scratch: Path) -> None:
    """The cell as a slot runs it, on a loaded adapter."""
    work = cell.workload
    adapter.configure(cell.config)
    session = KeptSession(
        adapter=adapter,
        model=cell.model,
        subset=work.subset,
        config=cell.config,
        seed=cell.data_seed,
        limit=work.limit,
        generation={"seed": cell.data_seed, **work.generation},
        scratch=scratch,
    )
    build_benchmark(work).run(cast(base.Session, session))


@pytest.fixture(scope="module")
def loaded(cells: Callable[[str], Cell]) -> Iterator[TransformersAdapter]:
    adapter = TransformersAdapter(cells("tiny/dense/mock_benchmark").model)
    adapter.load()
    yield adapter
    adapter.unload()


@pytest.mark.parametrize(
    "path",
    [
        "tiny/dense/mock_benchmark",
        "tiny/chat/mock_benchmark",
        "tiny/dense/recall_64",
        "tiny/dense/lm_eval_recall_generate",
        "tiny/dense/lm_eval_recall_choice",
        "tiny/dense/gsm8k",
        "tiny/dense/longbench_qasper",
        "tiny/dense/ruler_fwe",
        "tiny/chat/sums",
        "tiny/chat/mine",
    ],
)
def test_the_tokens_are_those_that_the_model_gets(
    cells: Callable[[str], Cell],
    loaded: TransformersAdapter,
    path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = cells(path)
    got: list[tuple[int, ...]] = []
    weights = cast(Any, loaded._loaded)
    if "lm_eval" in path or "gsm8k" in path:  # it makes the model's passes itself

        def passed(_: Any, args: Any, kwargs: Any) -> None:
            ids = kwargs.get("input_ids", args[0] if args else None)
            got.extend(tuple(row) for row in ids.tolist())

        hook = weights.model.register_forward_pre_hook(passed, with_kwargs=True)
        try:
            run(cell, loaded, tmp_path)
        finally:
            hook.remove()
    else:
        generate = weights.decoder.generate_batch

        def kept(batch: Any, *args: Any) -> Any:
            got.extend((*one.context, *one.question) for one in batch)
            return generate(batch, *args)

        monkeypatch.setattr(weights.decoder, "generate_batch", kept)
        run(cell, loaded, tmp_path)
    monkeypatch.setattr(
        "benchfleet.models.loaded_model.load_checkpoint", lambda *_: pytest.fail("weights loaded")
    )
    seen = preview(cell, 2)
    assert len({one.sample for one in seen.prompts}) == (2 if "mine" not in path else 3 - 1)
    for one in seen.prompts:
        assert one.tokens
        assert len(one.pieces) == len(one.tokens)
        # Of a likelihood, the model is fed all but the last token.
        assert (one.tokens[:-1] if one.continuation else one.tokens) in got
    if "chat" in path:
        assert all("[system] Answer with one word." in one.text for one in seen.prompts)
        assert all(one.text.endswith("[assistant]") for one in seen.prompts)
    if "recall_generate" in path:  # two examples, as turns of a chat
        assert all(one.text.count("[user]") == 3 for one in seen.prompts)


@pytest.mark.parametrize(
    "path",
    [
        "served/chat/mock_benchmark",
        "served/dense/lm_eval_recall_generate",
        "unknown/dense/lm_eval_recall_generate",
        "plain/dense/mock_benchmark",
    ],
)
def test_the_requests_are_those_that_a_server_gets(
    cells: Callable[[str], Cell], server: SimulatedServer, model: Path, path: str, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    cell = cells(path)
    adapter = adapter_class(cell.model.adapter)(cell.model)
    adapter.load()
    server.requests.clear()
    try:
        run(cell, adapter, tmp_path)
    finally:
        adapter.unload()
    asked = [request.body for request in server.requests]
    server.requests.clear()
    seen = preview(cell, 2)
    assert server.requests == []  # nothing is asked
    assert len(seen.prompts) == 2
    tokenizer = AutoTokenizer.from_pretrained(model)
    for one in seen.prompts:
        assert one.request in asked
        if path.startswith("unknown"):
            assert (one.tokens, one.note[:27]) == (None, "the server makes the tokens")
        elif one.messages:
            messages = [{"role": role, "content": text} for role, text in one.messages]
            ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
            assert list(one.tokens or ()) == ids["input_ids"]
        else:
            assert list(one.tokens or ()) == tokenizer(one.text)["input_ids"]


def test_what_asks_by_itself_is_refused_by_name(cells: Callable[[str], Cell]) -> None:
    with pytest.raises(CellFailure, match="prompts of script cannot be shown: a script asks by"):
        preview(cells("tiny/dense/script"), 1)
    with pytest.raises(CellFailure, match="serving cannot be shown: a load test makes its req"):
        preview(cells("unknown/dense/serving"), 1)


def test_another_interpreter_of_the_model_is_named(cells: Callable[[str], Cell]) -> None:
    cell = cells("served/dense/recall_64")
    assert preview(cell, 1).notes == []
    other = replace(cell, model=replace(cell.model, python="/envs/other/bin/python"))
    (note,) = preview(other, 1).notes
    assert note.startswith(f"made by {sys.executable}; the cell runs under /envs/other/bin/python")
