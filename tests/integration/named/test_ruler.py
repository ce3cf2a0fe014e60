"""RULER's data: seeded, for any tokenizer and length, as lm-eval makes them where it can."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import benchmark_rows as rows
from benchfleet.benchmarks import base
from benchfleet.benchmarks.lm_eval.ruler import Ruler
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from kept_sessions import KeptSession
from nltk_folder import with_punkt
from tiny_models import save_byte_tokenizer, save_word_tokenizer

from .conftest import answered, compare_parts

pytest.importorskip("wonderwords")
pytestmark = pytest.mark.filterwarnings("ignore")
TASKS = tuple(Ruler.tasks)
PLAIN = ("niah_single_1", "niah_multikey_2", "niah_multikey_3", "vt", "cwe", "fwe")


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of bytes, and one of words."""
    folder = tmp_path_factory.mktemp("tokenizers")
    save_byte_tokenizer(folder / "bytes")
    save_word_tokenizer(folder / "words")
    return {name: folder / name for name in ("bytes", "words")}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Essays and questions of others, as they are published."""
    folder = with_punkt(tmp_path_factory.mktemp("data"))
    essays = [{"text": f"Essay {n}. {rows.LONG * 40}"} for n in range(3)]
    rows.write(folder, {"paul_graham_essays/data/train-00000-of-00001": essays}, parquet=True)
    paragraphs = [
        {
            "context": f"Document {n} tells. {rows.LONG}",
            "qas": [
                {
                    "question": f"Who kept lamp {n}?",
                    "is_impossible": False,
                    "answers": [{"text": f"Ada {n}"}],
                }
            ],
        }
        for n in range(30)
    ]
    squad = {"data": [{"paragraphs": paragraphs[k : k + 3]} for k in range(0, 30, 3)]}
    (folder / "dev-v2.0.json").write_text(json.dumps(squad))
    hotpot = [
        {
            "question": f"Which {n}?",
            "answer": f"Bo {n}",
            "context": [[f"Title {n} {k}", [rows.LONG, "It ends."]] for k in range(2)],
        }
        for n in range(30)
    ]
    (folder / "hotpot_dev_distractor_v1.json").write_text(json.dumps(hotpot))
    return folder


def session(tokenizer: Path, **given: Any) -> base.Session:
    model = Model(name="m", adapter="mock", source=str(tokenizer), digest="mock")
    adapter = SimpleNamespace(serves=False, lends=False)
    return cast(base.Session, KeptSession(adapter=adapter, model=model, subset=None, **given))


def made(
    task: str, tokenizer: Path, length: int, data: Path | None = None, **given: Any
) -> list[dict[str, Any]]:
    """The rows of a task."""
    from benchfleet.benchmarks.lm_eval.local_data import redirected
    from benchfleet.benchmarks.lm_eval.nltk_data import nltk_from

    params = {"folder": "/", "lengths": [length], **({"data": str(data)} if data else {})}
    ruler = Ruler(params)
    (part,) = ruler.parts(task)
    local = ruler.local()
    with redirected(local, ruler.remotes(part)), nltk_from(local.folder if local else None):
        built = ruler.build(part, session(tokenizer, **{"limit": 3, **given}))
    return [dict(row) for row in built.eval_docs]


def lm_evals_own(task: str, tokenizer: Path, length: int, data: Path) -> list[dict[str, Any]]:
    """The first rows that lm-eval makes by itself, with the seeds of its own run."""
    import numpy
    from lm_eval.tasks import TaskManager

    from benchfleet.benchmarks.lm_eval.local_data import LocalData, redirected
    from benchfleet.benchmarks.lm_eval.nltk_data import nltk_from
    from benchfleet.benchmarks.lm_eval.tasks import built_in_file

    ruler = Ruler({"folder": "/"})
    (part,) = ruler.parts(task)
    metadata = {"max_seq_lengths": [length], "pretrained": str(tokenizer)}
    manager = TaskManager(include_defaults=False, metadata=metadata)
    random.seed(0)
    numpy.random.seed(1234)
    with redirected(LocalData(data), ruler.remotes(part)), nltk_from(data):
        (built,) = manager.load([str(built_in_file(part.task))])["tasks"].values()
    return [dict(row) for row in list(built.eval_docs)[:3]]


@pytest.mark.parametrize("task", TASKS)
def test_rows_are_those_of_lm_eval_where_it_makes_some(
    tokenizers: dict[str, Path], data: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import requests

    class Local:
        def __init__(self, url: str, **_: Any) -> None:
            self._file = data / url.rpartition("/")[2]

        def raise_for_status(self) -> None:
            """It is there."""

        def json(self) -> Any:
            return json.loads(self._file.read_text())

    monkeypatch.setattr(requests, "get", Local)
    monkeypatch.chdir(data)
    ours = made(task, tokenizers["words"], 1024, data)
    if task.startswith("qa"):  # 500 questions by themselves, which the tests' data do not have
        assert all(row["outputs"][0].split()[0] in ("Ada", "Bo") for row in ours)
        return
    if task == "cwe":  # its generator remembers what was made before it
        import sys

        sys.modules.pop("lm_eval.tasks.ruler.cwe_utils")
    assert ours == lm_evals_own(task, tokenizers["words"], 1024, data)


GOLDEN = {
    ("cwe", "bytes"): "f91e5219b5b4c90a",
    ("cwe", "words"): "4b9f43d2883fb307",
    ("fwe", "bytes"): "ba3299e99e6d0be3",
    ("fwe", "words"): "be59640330f7a5c7",
    ("niah_multikey_1", "bytes"): "2da7376ef35963eb",
    ("niah_multikey_1", "words"): "3f4d9f39d53efbce",
    ("niah_multikey_2", "bytes"): "788c175e52c6f4bb",
    ("niah_multikey_2", "words"): "06998228d741acd3",
    ("niah_multikey_3", "bytes"): "56740919c3bafbe9",
    ("niah_multikey_3", "words"): "1b6cdbcef13ef1f3",
    ("niah_multiquery", "bytes"): "6733d06f2745cb8a",
    ("niah_multiquery", "words"): "289cab034265b187",
    ("niah_multivalue", "bytes"): "e4d790cebd3c0575",
    ("niah_multivalue", "words"): "c114892b33d2d84a",
    ("niah_single_1", "bytes"): "78b37e8c814757e8",
    ("niah_single_1", "words"): "bb55bf9fed9e204e",
    ("niah_single_2", "bytes"): "f7ad5e152f01b6be",
    ("niah_single_2", "words"): "3a2d49fcf866c46d",
    ("niah_single_3", "bytes"): "986f97a36bce2f62",
    ("niah_single_3", "words"): "aa3b536a25698b63",
    ("qa_1", "bytes"): "73977bc6d33792b1",
    ("qa_1", "words"): "c87a6caced4ac077",
    ("qa_2", "bytes"): "0b6aa09ed3c88cbc",
    ("qa_2", "words"): "bb7201fdebf4a40c",
    ("vt", "bytes"): "58f922ad6841b1b5",
    ("vt", "words"): "309ffff976642622",
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("tokenizer", "length"), [("bytes", 4096), ("words", 1024)])
def test_rows_stay_as_they_are(
    tokenizers: dict[str, Path], data: Path, task: str, tokenizer: str, length: int
) -> None:
    own = data if task not in PLAIN else None  # the others need nothing
    if (task, tokenizer) == ("cwe", "bytes"):
        length = 8192
    got = made(task, tokenizers[tokenizer], length, own)
    assert len(got) == 3
    assert all(row["max_length"] == length for row in got)
    if task != "fwe":  # which leaves no room for the answer
        assert all(length * 0.5 < row["length"] <= length for row in got)
    assert content_digest(got)[:16] == GOLDEN[task, tokenizer]


def test_another_repeat_makes_other_rows_and_a_limit_the_first(
    tokenizers: dict[str, Path], data: Path
) -> None:
    for task in ("niah_single_1", "vt", "cwe", "fwe"):
        first = made(task, tokenizers["words"], 1024)
        assert made(task, tokenizers["words"], 1024) == first
        assert made(task, tokenizers["words"], 1024, limit=2) == first[:2]
        assert made(task, tokenizers["words"], 1024, repeat=1) != first


@pytest.mark.parametrize(
    ("task", "length"),
    [("vt", 300), ("vt", 700), ("cwe", 300), ("cwe", 7000), ("fwe", 300), ("niah_single_1", 300)],
)
def test_a_length_that_is_too_short_is_refused_and_ends(
    tokenizers: dict[str, Path], task: str, length: int
) -> None:
    with pytest.raises(CellFailure, match="cannot be built") as caught:
        made(task, tokenizers["bytes"], length)
    assert caught.value.kind == "user_error"


def test_missing_texts_are_named_with_what_to_do(
    tokenizers: dict[str, Path], tmp_path: Path
) -> None:
    for task, missing in (("niah_single_2", "paul_graham_essays"), ("qa_1", "dev-v2.0.json")):
        ruler = Ruler({"folder": "/", "data": str(tmp_path), "lengths": [1024]})
        with pytest.raises(ValueError, match=missing):
            ruler.data_digest(task)
    assert Ruler({"folder": "/", "data": str(tmp_path)}).data_digest("vt")


def test_a_length_asks_every_task_with_its_context_apart(llama: Any, data: Path) -> None:
    params = {"data": str(data), "samples": 1}
    prompts = []
    original = llama.answer

    def noted(batch: Any, generation: Any) -> Any:
        prompts.extend(batch)
        return original(batch, generation)

    llama.answer = noted
    try:
        score, kept = answered("ruler", llama, "8000", params, generation={"max_new_tokens": 2})
    finally:
        del llama.answer
    assert [name for name in score.tasks if " " not in name] == list(TASKS)
    assert [record.index for record in kept.kept] == list(range(13))
    questions = [prompt.question.strip() for prompt in prompts]
    starts = ("What", "Question:", "Answer the question")
    assert all(question.startswith(starts) for question in questions)
    assert all(len(prompt.context) > 1000 for prompt in prompts)


def test_parts_draw_the_rows_of_the_whole(llama: Any) -> None:
    params, generation = {"samples": 4, "lengths": [1500]}, {"max_new_tokens": 2}
    run = partial(answered, "ruler", llama, "niah_single_1", params, generation=generation)
    compare_parts(run, 3)


@pytest.mark.parametrize(("task", "least"), [("vt", 754), ("cwe", 455)])
def test_a_length_that_suits_no_tokenizer_is_refused_before_anything_runs(
    task: str, least: int, tmp_path: Path
) -> None:
    for subset, lengths in ((task, [4096, least - 1]), (str(least - 1), [4096])):
        refused = Ruler({"folder": "/", "lengths": lengths}).check_subset(subset)
        assert refused is not None
        assert f"does not fit into {least - 1} tokens; ask for a length of" in refused
    assert Ruler({"folder": "/", "lengths": [least]}).check_subset(task) is None
    save_word_tokenizer(tmp_path)
    made(task, tmp_path, least)  # that has as many tokens as words
    with pytest.raises(CellFailure, match="cannot be built"):
        made(task, tmp_path, least - 1)
