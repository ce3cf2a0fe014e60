"""Campaigns that ask a real adapter for what it rejects: reported at once, with its line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.errors import CampaignError, Mistake
from tiny_models import saved_model

EXAMPLES = Path(__file__).parents[3] / "examples" / "recall"
NEAR = "no generation setting 'max_new_token'; did you mean 'max_new_tokens'?"


def _mistakes(folder: Path, text: str) -> list[Mistake]:
    file = folder / "study.yaml"
    file.write_text(dedent(text).replace("EXAMPLES", str(EXAMPLES)))
    try:
        load_campaign(file)
    except CampaignError as error:
        return error.mistakes
    return []


def _said(folder: Path, text: str) -> list[str]:
    return [f"{one.line} {one.key}: {one.message}" for one in _mistakes(folder, text)]


def test_generation_settings_that_no_adapter_takes_are_named_where_they_stand(
    tmp_path: Path,
) -> None:
    text = """\
        campaign: c
        defaults:
          generation: {max_new_token: 5, temperature: 0}
        matrix:
          models:
            - {name: a, path: EXAMPLES/model, generation: {temperature: hot}}
            - {name: b, path: EXAMPLES/model, generation: {top_k: 1}}
          benchmarks:
            - mock_benchmark
            - recall: [128, 512]
            - recall:
                subsets: 1024
                generation: {beams: 4}
        """
    assert _said(tmp_path, text) == [
        f"3 defaults.generation.max_new_token: {NEAR}",
        "6 matrix.models[0].generation.temperature: temperature must be a number from 0 up, "
        "not 'hot' (model 'a')",
        "13 matrix.benchmarks[2].recall.generation.beams: no generation setting 'beams'; there are "
        "max_new_tokens, temperature, top_p, top_k, seed, stop, repetition_penalty",
    ]


def test_a_setting_that_some_adapters_take_names_the_models_of_those_that_do_not(
    tmp_path: Path,
) -> None:
    text = """\
        campaign: c
        matrix:
          models: [{name: a, path: EXAMPLES/model}, {name: b, adapter: mock}]
          benchmarks:
            - mock_benchmark: {generation: {max_new_token: 5}}
            - recall: {subsets: [128, 512], generation: {max_new_token: 5}}
        """
    assert _said(tmp_path, text) == [
        f"{line} matrix.benchmarks[{place}.generation.max_new_token: {NEAR} (model 'a')"
        for line, place in ((5, "0].mock_benchmark"), (6, "1].recall"))
    ]


def test_what_a_benchmark_says_over_a_wrong_setting_is_what_counts(tmp_path: Path) -> None:
    text = """\
        campaign: c
        defaults: {generation: {top_p: 2}}
        matrix:
          models: [{name: a, path: EXAMPLES/model}]
          benchmarks: [{mock_benchmark: {generation: {top_p: 0.5}}}]
        """
    assert _said(tmp_path, text) == []


@pytest.mark.parametrize(
    "rest",
    [
        "benchmarks: [command: {name: mine, argv: [echo]}]",
        "benchmarks: [recall, command: {name: mine, argv: [echo]}]\n"
        "  exclude: {benchmarks: recall}",
    ],
)
def test_settings_that_no_adapter_is_asked_with_are_not_its_to_check(
    tmp_path: Path, rest: str
) -> None:
    head = """\
        campaign: c
        defaults: {generation: {max_new_token: 5}}
        matrix:
          models: [{name: a, path: EXAMPLES/model}]
        """
    assert _said(tmp_path, dedent(head) + f"  {rest}\n") == []


def test_code_of_the_users_own_reads_what_settings_it_likes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def run(adapter, generation): return 1\n")
    text = """\
        campaign: c
        matrix:
          models: [{name: a, path: EXAMPLES/model}]
          benchmarks: [{python: {name: mine, call: "mine:run", generation: {beams: 4}}}]
        """
    assert _said(tmp_path, text) == []


LM_EVAL = """\
    campaign: c
    matrix:
      models: [{name: a, path: EXAMPLES/model}, {name: b, adapter: mock}]
      benchmarks:
        - recall
        - lm_eval: {tasks: [recall_choice, recall_generate], include_path: EXAMPLES/tasks}
    """


def test_lm_eval_on_an_adapter_that_lends_no_model_is_refused_naming_the_pair(
    tmp_path: Path,
) -> None:
    pytest.importorskip("lm_eval")
    wrong = (
        "lm_eval makes the model's passes itself, which the adapter 'mock' does not let it "
        "(model 'b'); change it, or exclude the pair"
    )
    assert _said(tmp_path, LM_EVAL) == [
        f"6 matrix.benchmarks[1].lm_eval.tasks[{place}]: {wrong}" for place in (0, 1)
    ]
    excluded = dedent(LM_EVAL) + "  exclude: {models: b, benchmarks: lm_eval}\n"
    assert _said(tmp_path, excluded) == []


def test_configs_that_passes_of_lm_evals_own_cannot_have_are_refused(tmp_path: Path) -> None:
    """Before a model is loaded for them."""
    pytest.importorskip("lm_eval")
    text = """\
        campaign: c
        matrix:
          models: [{name: a, path: EXAMPLES/model}]
          configs:
            dense: null
            kv: {kv_cache: int4}
            quest: {attention: {quest: {heavy_size: 32, question: dense}}}
          benchmarks:
            - recall
            - lm_eval: {name: own, tasks: recall_generate, include_path: EXAMPLES/tasks}
            - lm_eval: {name: apart, tasks: recall_generate, include_path: EXAMPLES/tasks,
                context: context}
        """
    its = "10 matrix.benchmarks[1].lm_eval.tasks: own makes the model's passes itself, and config"
    way_out = "(model 'a'); change it, or exclude the pair"
    assert _said(tmp_path, text) == [
        f"{its} kv has a kv_cache {way_out}",
        f"{its} quest has question: dense {way_out}",
    ]
    excluded = "  exclude: [{configs: [kv, quest], benchmarks: own}]\n"
    assert _said(tmp_path, dedent(text) + excluded) == []


def test_lm_eval_is_checked_by_the_settings_that_it_takes(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    text = """\
        campaign: c
        matrix:
          models: [{name: a, path: EXAMPLES/model}]
          benchmarks:
            - lm_eval:
                tasks: recall_choice
                include_path: EXAMPLES/tasks
                generation: {max_gen_toks: 5}
        """
    assert [one.key for one in _mistakes(tmp_path, text)] == [
        "matrix.benchmarks[0].lm_eval.generation.max_gen_toks"
    ]


def test_a_token_in_the_campaign_is_refused_and_not_repeated(tmp_path: Path) -> None:
    text = """\
        campaign: c
        matrix:
          models:
            - {name: a, path: EXAMPLES/model, model_kwargs: {token: hf_secretsecret}}
            - {name: b, path: EXAMPLES/model, tokenizer_kwargs: {token: hf_secretsecret}}
          benchmarks: [recall]
        """
    output = _said(tmp_path, text)
    assert [line.split(";")[1] for line in output] == [
        " set HF_TOKEN instead, which is kept nowhere"
    ] * 2
    assert "hf_secret" not in "".join(output)


def test_a_family_that_takes_no_attention_configs_is_refused_before_anything_runs(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    window = saved_model(tmp_path / "mistral", "mistral", sliding_window=16)
    saved_model(tmp_path / "free", "mistral", sliding_window=None)
    text = f"""\
        campaign: c
        matrix:
          models:
            - {{name: windowed, path: {window}}}
            - {{name: free, path: {tmp_path / "free"}}}
            - {{name: off, path: {window}, model_kwargs: {{sliding_window: null}}}}
          configs:
            dense: null
            streaming: {{attention: [{{sink: 4}}, {{local: 8}}]}}
          benchmarks: [mock_benchmark]
        """
    (said,) = _said(tmp_path, text)
    assert said.startswith("9 matrix.configs.streaming: each layer of this model has a sliding ")
    assert "window of 16 keys, and attention configs act on the layers without one" in said
    assert "(model 'windowed')" in said
    bloom = text.replace(str(window), str(saved_model(tmp_path / "bloom", "bloom")))
    assert any(
        "bloom models do not compute attention by sdpa" in one for one in _said(tmp_path, bloom)
    )
