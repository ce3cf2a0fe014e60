"""Context and question apart: read once, cut in the middle, led by one BOS, and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import benchmark_rows as rows
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config
from benchfleet.models.encoding import Encoded

from .conftest import answered

pytestmark = pytest.mark.filterwarnings("ignore")
SHORT = {"max_new_tokens": 2}
STREAMING = Config(
    name="streaming",
    attention=(AttentionStep(name="streaming", params={"sink_size": 4, "window_size": 20}),),
)


@pytest.fixture
def seen(llama: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """The contexts that the model reads, and the prompts that it continues."""
    decoder = llama._loaded.decoder
    prefill, generate = decoder._prefill, decoder.generate_batch
    noted: dict[str, list[Any]] = {"contexts": [], "prompts": []}

    def noted_prefill(contexts: list[Any]) -> Any:
        noted["contexts"] += contexts
        return prefill(contexts)

    def noted_generate(batch: list[Encoded], *others: Any) -> Any:
        noted["prompts"] += batch
        return generate(batch, *others)

    monkeypatch.setattr(decoder, "_prefill", noted_prefill)
    monkeypatch.setattr(decoder, "generate_batch", noted_generate)
    return noted


@pytest.mark.parametrize(("batch_size", "config"), [(1, None), (2, None), (1, STREAMING)])
def test_a_context_is_read_once_for_all_its_questions(
    llama: Any, seen: dict[str, list[Any]], tmp_path: Path, batch_size: int, config: Any
) -> None:
    name = "shortdep_cloze"
    shuffled = [rows.loogle(name)[n] for n in (0, 2, 1, 3)]  # of two texts
    data = rows.write(tmp_path, {name: shuffled})
    (tmp_path / "nltk_data" / "corpora" / "wordnet").mkdir(parents=True)
    given = {"config": config} if config else {}
    score, session = answered(
        "loogle", llama, name, {"data": str(data)}, batch_size=batch_size, generation=SHORT, **given
    )
    assert len(seen["prompts"]) == 4
    assert len(seen["contexts"]) == 2
    assert [record.index for record in session.kept] == [0, 2, 1, 3]
    contexts = [record.context for record in session.kept]
    assert contexts[0] == contexts[1] != contexts[2] == contexts[3] != ""
    sparse = config is not None
    assert all((record.measures["density"] < 1) is sparse for record in session.kept)
    how = "sparse for question and answer" if sparse else "dense"
    assert score.summary["attention"] == how


def test_a_prompt_that_is_too_long_loses_the_middle_of_its_context(
    llama: Any, seen: dict[str, list[Any]], tmp_path: Path
) -> None:
    row = dict(rows.longbench("qasper")[0])
    row["context"] = "FIRST " + "x" * 20_000 + " LAST"
    data = rows.write(tmp_path, {"qasper": [row]})
    _, session = answered("longbench", llama, "qasper", {"data": str(data)}, generation=SHORT)
    (prompt,) = seen["prompts"]
    assert prompt.length + SHORT["max_new_tokens"] == 8192  # what the model takes
    text = llama._loaded.encoder.decode((*prompt.context, *prompt.question))
    assert text.startswith("You are given a scientific article")
    assert "Article: FIRST x" in text
    assert "x LAST\n\n Answer the question" in text
    assert text.endswith("Question: Who kept the lamp 0?\n\nAnswer:")
    assert session.kept[0].measures["truncated"] == 1


@pytest.mark.parametrize("template", [False, True])
def test_a_prompt_has_one_bos_with_a_template_and_without(
    llama: Any, seen: dict[str, list[Any]], tmp_path: Path, template: bool
) -> None:
    data = rows.write(tmp_path, {"qasper": rows.longbench("qasper")})
    params = {"data": str(data), "apply_chat_template": template}
    answered("longbench", llama, "qasper", params, limit=1, generation=SHORT)
    (prompt,) = seen["prompts"]
    tokenizer = llama._loaded.tokenizer
    ids = [*prompt.context, *prompt.question]
    assert [place for place, token in enumerate(ids) if token == tokenizer.bos_token_id] == [0]
    text = tokenizer.decode(ids)
    assert text.startswith("<s>[user] You are" if template else "<s>You are")
    assert text.endswith("[assistant]") is template


def test_a_column_of_any_task_may_be_its_context(
    llama: Any, seen: dict[str, list[Any]], tmp_path: Path
) -> None:
    rows.write(tmp_path, {"rows": [{"page": rows.LONG, "ask": n, "right": "a"} for n in range(3)]})
    (tmp_path / "page.yaml").write_text(
        "task: page\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: '{{page}} {{ask}}?'\n"
        "doc_to_target: right\ngeneration_kwargs: {until: [], max_gen_toks: 2}\n"
        "metric_list: [{metric: exact_match}]\n"
    )
    params = {"folder": str(tmp_path), "include_path": ".", "context": "page"}
    _, session = answered("lm_eval", llama, "page", params)
    assert len(seen["contexts"]) == 1
    assert len(session.kept) == 3


@pytest.mark.parametrize("stop_after", [1, 3, 7])
def test_a_cell_of_several_tasks_goes_on_where_it_stopped(
    llama: Any, seen: dict[str, list[Any]], tmp_path: Path, stop_after: int
) -> None:
    files = {f"1k/qa{n}": rows.babilong() for n in range(1, 6)}
    params = {"data": str(rows.write(tmp_path, files))}
    whole, first = answered("babilong", llama, "1k", params, generation=SHORT)
    assert [record.index for record in first.kept] == list(range(10))
    with pytest.raises(KeyboardInterrupt):
        answered("babilong", llama, "1k", params, generation=SHORT, stop_after=stop_after)
    recorded = first.kept[:stop_after]
    seen["prompts"].clear()
    score, second = answered("babilong", llama, "1k", params, generation=SHORT, recorded=recorded)
    assert len(seen["prompts"]) == 10 - stop_after
    assert [record.index for record in second.kept] == list(range(stop_after, 10))
    assert score == whole
