"""Scores of answers whose scores are known, and hostile answers, which change nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import benchmark_rows as rows
from benchfleet.domain.cell import Model
from benchfleet.models.base import Answer, Prompt
from benchfleet.models.mock import MockAdapter
from nltk_folder import with_wordnet

from .conftest import answered

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="session")
def nltk_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """WordNet in one folder for all tests: NLTK reads it from where it found it first."""
    return with_wordnet(tmp_path_factory.mktemp("wordnet")) / "nltk_data"


@pytest.fixture
def wordnet(nltk_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK finds WordNet."""
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(nltk_data)])


class Scripted(MockAdapter):
    """Gives the answers one after another."""

    def __init__(self, answers: Sequence[str]) -> None:
        super().__init__(Model(name="m", adapter="mock", source="m", digest="mock"))
        self._answers = cycle(answers)
        self.prompts: list[Prompt] = []

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        self.prompts += prompts
        return [Answer(text=next(self._answers)) for _ in prompts]


def scores(
    name: str, subset: str | None, data: Path, answers: Sequence[str], **params: Any
) -> tuple[list[float], Any]:
    adapter = Scripted(answers)
    given = {"data": str(data), **params}
    score, _ = answered(name, adapter, subset, given, limit=len(answers))
    return list(score.per_sample), score


# Rows are of `benchmark_rows`: the right answers of longbench are "Ada Brandt 0", "… 1", "… 2".
@pytest.mark.parametrize(
    ("subset", "answers", "expected"),
    [
        ("qasper", ["Ada Brandt 0", "the Ada", "nobody"], [100, 50, 0]),
        ("multifieldqa_zh", ["Ada Brandt 0", "Ada", ""], [100, 50, 0]),
        ("gov_report", ["Ada Brandt 0", "Ada", ""], [100, 50, 0]),
        ("dureader", ["Ada Brandt 0", "Ada", ""], [100, 50, 0]),
        ("trec", ["Location", "Location or Person", "Person"], [100, 50, 0]),
        ("passage_count", ["3", "3 or 4", "four"], [100, 50, 0]),
        ("passage_retrieval_en", ["Paragraph 2", "2, or 3", "Paragraph 3"], [100, 50, 0]),
        ("passage_retrieval_zh", ["段落2", "2或3", "三"], [100, 50, 0]),
        ("lcc", ["Ada Brandt 0", "# a comment\nAda Brandt 1", "xyz"], [100, 100, 0]),
    ],
)
def test_longbench(tmp_path: Path, subset: str, answers: list[str], expected: list[float]) -> None:
    data = rows.write(tmp_path, {f"{subset}/test": rows.longbench(subset)})
    found, score = scores("longbench", subset, data, answers)
    if subset in ("multifieldqa_zh", "dureader"):  # their words are jieba's
        assert found[::2] == pytest.approx([100, 0])
        assert 0 < found[1] < 100
    else:
        assert found == pytest.approx(expected, abs=0.01)
    assert score.overall == pytest.approx(sum(found) / 3)


def test_longbench_e_tells_the_mean_of_each_length(tmp_path: Path) -> None:
    data = rows.write(tmp_path, {"qasper_e": rows.longbench("qasper_e")})
    _, score = scores("longbench_e", "qasper", data, ["Ada Brandt 0", "Ada", "nobody"])
    lengths = {name: value for name, value in score.tasks.items() if name.startswith("length")}
    assert lengths == pytest.approx({"length_0-4k": 100, "length_4-8k": 50, "length_8k+": 0})


@pytest.mark.parametrize(
    ("subset", "right", "wrong"),
    [
        ("passkey", "The pass key is 42", "41"),
        ("number_string", "42", "4"),
        ("code_run", "so it is 42.", "42 no"),
        ("math_find", "42", "43"),
        ("kv_retrieval", "42", "43"),
    ],
)
def test_infinite_bench(tmp_path: Path, subset: str, right: str, wrong: str) -> None:
    data = rows.write(tmp_path, {subset: rows.infinite_bench(subset)})
    found, _ = scores("infinite_bench", subset, data, [right, wrong])
    assert found == [1, 0]


def test_longbench_v2_by_difficulty_and_length(tmp_path: Path) -> None:
    data = rows.write(tmp_path, {"train": rows.longbench_v2()})
    said = ["A", "(B)", "**(C)**", "(A)", "(A)", "I do not know"]  # right: A B C D A B
    answers = [f"The correct answer is {answer}" for answer in said]
    found, score = scores("longbench_v2", None, data, answers)
    assert found == [1, 1, 1, 0, 1, 0]
    assert score.tasks == pytest.approx(
        {
            "acc": 4 / 6,
            "difficulty_easy": 1.0,
            "difficulty_hard": 1 / 3,
            "length_short": 0.5,
            "length_medium": 1.0,
            "length_long": 0.5,
        }
    )


def test_aime_tells_how_many_answers_are_in_a_box(tmp_path: Path) -> None:
    from benchfleet.benchmarks.lm_eval.named import Aime2025

    part = Aime2025({}).parts(None)[0]
    samples = [{"resps": [[text]]} for text in (r"so \boxed{12}", "12", r"\boxed{3}", "no")]
    from benchfleet.benchmarks.base import Score

    assert Aime2025({}).refined(part, samples, Score(overall=0)).summary["extraction_rate"] == 0.5


@pytest.mark.usefixtures("wordnet")
def test_loogle_scores_by_the_libraries_that_its_own_code_uses(tmp_path: Path) -> None:
    from nltk.translate.bleu_score import sentence_bleu
    from rouge import Rouge

    data = rows.write(tmp_path, {"data/shortdep_qa": rows.loogle("shortdep_qa")})
    answers = ["Ada Brandt did", "Ada Brandt did it\nwell", "a lady", ""]
    found, score = scores("loogle", "shortdep_qa", data, answers)
    right = "Ada Brandt did"
    said = [answer or "None" for answer in answers]
    rouge = Rouge().get_scores(hyps=said, refs=[right] * 4)
    assert found == [one["rouge-l"]["r"] for one in rouge] == [1, 1, 0, 0]
    bleu = [sentence_bleu([right.split()], one.split(), weights=(1, 0, 0, 0)) for one in said]
    assert score.tasks["bleu_1"] == pytest.approx(sum(bleu) / 4)
    # Two of the same words have 0.998: 1 - 0.5 * (1 chunk / 3 words) ** 3 for the first answer.
    assert score.tasks["meteor"] == pytest.approx((1 - 0.5 / 27 + 0.9483) / 4, abs=0.02)
    assert score.tasks["rouge_l"] == score.overall == 0.5


def test_loogle_fills_clozes_by_name_and_by_word(tmp_path: Path) -> None:
    data = rows.write(tmp_path, {"data/shortdep_cloze": rows.loogle("shortdep_cloze")})
    answers = [
        "{'<mask-0>': 'Ada Brandt', '<mask-1>': 'Fallow Point'}",
        '{"<mask-0>": "Ada Smith", "<mask-1>": "Fallow Point"}',
        "__import__('os').system('true')",
        "[1, 2",
    ]
    _, score = scores("loogle", "shortdep_cloze", data, answers)
    assert score.overall == 3 / 8
    assert score.tasks == {"exact_match": 3 / 8, "partial_match": 4 / 8}


@pytest.mark.usefixtures("wordnet")
def test_loogle_reads_the_first_form_of_its_data_too(tmp_path: Path) -> None:
    pairs = [{"Q": f"Who {n}?", "A": "Ada", "S": []} for n in range(2)]
    texts = [{"input": rows.LONG, "title": "t", "qa_pairs": repr(pairs), "output": "none"}]
    data = rows.write(tmp_path, {"longdep_qa": texts})
    found, _ = scores("loogle", "longdep_qa", data, ["Ada", "Bob"])
    assert found == [1, 0]


HOSTILE = ["a\0b", "x" * 1_000_000, "🙂" * 50, "<script>\\boxed{</s>{{7*7}}", "'\"; import os"]


@pytest.mark.parametrize(
    ("name", "subset", "files"),
    [
        ("longbench", "qasper", {"qasper/test": rows.longbench("qasper")}),
        ("longbench", "gov_report", {"gov_report/test": rows.longbench("gov_report")}),
        ("longbench", "dureader", {"dureader/test": rows.longbench("dureader")}),
        ("longbench", "lcc", {"lcc/test": rows.longbench("lcc")}),
        ("infinite_bench", "code_run", {"code_run": rows.infinite_bench("code_run")}),
        ("longbench_v2", "0shot", {"train": rows.longbench_v2()}),
        ("babilong", "qa1_0k", {"0k/qa1": rows.babilong()}),
        ("loogle", "shortdep_qa", {"shortdep_qa": rows.loogle("shortdep_qa")}),
        ("loogle", "shortdep_cloze", {"shortdep_cloze": rows.loogle("shortdep_cloze")}),
    ],
)
@pytest.mark.parametrize("answer", HOSTILE, ids=["nul", "megabyte", "emoji", "markup", "code"])
@pytest.mark.usefixtures("wordnet")
def test_hostile_answers_are_scored_like_any_other(
    tmp_path: Path, name: str, subset: str, files: Mapping[str, rows.Rows], answer: str
) -> None:
    data = rows.write(tmp_path, files)
    adapter = Scripted([answer])
    score, session = answered(name, adapter, subset, {"data": str(data)}, limit=1)
    assert 0 <= score.overall < 100
    assert [record.predicted_answer for record in session.kept] == [answer]
