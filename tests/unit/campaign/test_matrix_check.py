from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.campaign.benchmarks import read_benchmarks
from benchfleet.campaign.configs import read_configs
from benchfleet.campaign.matrix_check import check_contents, check_names
from benchfleet.campaign.models import read_models
from benchfleet.domain.cell import Workload

from .reading import mistakes_of, mock_defaults, read


def _found(
    models: str = "[m]", configs: str = "{dense: null}", benchmarks: str = "[recall]"
) -> dict[str, str]:
    """What the names and contents of these axes have against each other."""
    top = read(f"models: {models}\nconfigs: {configs}\nbenchmarks: {benchmarks}\n")
    defaults = mock_defaults()
    declared = read_models(top.inside("models"), defaults, Path("/study"))
    written = read_configs(top.inside("configs"), defaults)
    check_names(declared, written, read_benchmarks(top.inside("benchmarks"), defaults))
    check_contents(declared, written)
    return mistakes_of(top)


def test_names_and_contents_apart_are_no_mistake() -> None:
    found = _found(
        models="[m, {name: n, model_kwargs: {answer: x}}]",
        configs="{dense: null, sparse: {attention: {local: 4}}}",
        benchmarks="[recall, {recall: [128, 512]}, {recall: {subsets: 128, limit: 3}}]",
    )
    assert found == {}


@pytest.mark.parametrize(
    "name",
    [
        *("ledger.db", "Ledger.db-wal", "report.md", "report.html"),
        *("execution_summary.json", "combined_results.json"),
    ],
)
def test_a_model_named_as_a_file_of_the_results_folder_is_refused(name: str) -> None:
    found = _found(models=f"[{{name: {name}}}]")
    assert list(found) == ["models[0]"]
    assert f"{name!r} is a file of the results folder" in found["models[0]"]


@pytest.mark.parametrize(
    ("first", "second"),
    [("a/b", "a_b"), ("Llama", "llama"), ("é", "e\N{COMBINING ACUTE ACCENT}"), ("ß", "SS")],
)
def test_two_names_in_one_folder_are_refused_naming_both(first: str, second: str) -> None:
    configs = f'{{"{first}": null, "{second}": {{attention: {{local: 4}}}}}}'
    models = f'[{{name: "{first}"}}, {{name: "{second}", model_kwargs: {{answer: x}}}}]'
    found = _found(models=models, configs=configs)
    assert len(found) == 2
    for message in found.values():
        assert repr(first) in message
        assert repr(second) in message
        assert "would share the folder" in message
    assert "models[1]" in found


def test_a_name_that_stands_twice_is_refused() -> None:
    found = _found(models="[m, {name: m, model_kwargs: {answer: x}}]")
    assert found == {"models[1]": "'m' stands twice; remove one, or give it another name"}


def test_a_subset_that_stands_twice_is_refused_in_whatever_item() -> None:
    found = _found(benchmarks="[{recall: [128, 128]}, {recall: {subsets: [128], samples: 3}}]")
    assert list(found) == ["benchmarks[0].recall[1]", "benchmarks[1].recall.subsets[0]"]
    message = "benchmark 'recall' with subset '128' stands twice"
    assert all(one.startswith(message) for one in found.values())


def test_a_task_of_lm_eval_may_stand_twice_under_two_names() -> None:
    tasks = [f"{{lm_eval: {{tasks: arc_easy{more}}}}}" for more in ("", ", name: few")]
    assert _found(benchmarks=f"[{', '.join(tasks)}]") == {}
    twice = _found(benchmarks=f"[{tasks[0]}, {tasks[0]}]")
    (message,) = twice.values()
    assert message == (
        "benchmark 'lm_eval' with subset 'arc_easy' stands twice; remove one, or give it another "
        "'name' (of command, inspect, lm_eval and python)"
    )


def test_equal_configs_under_two_names_are_refused_naming_both() -> None:
    configs = "{a: {attention: {local: 4}}, b: {attention: {local: {window_size: 4}}}}"
    assert _found(configs=configs) == {
        "configs.b": "'a' and 'b' are the same config under two names, so their cells would be "
        "one; remove one"
    }


def test_equal_models_under_two_names_are_refused_naming_both() -> None:
    found = _found(models="[m, {name: n, model: m, needs: {gpus: 1}}]")
    assert list(found) == ["models[1]"]
    assert "'m' and 'n' are the same model" in found["models[1]"]


def test_a_server_is_no_reason_of_two_models_that_ask_none() -> None:
    served = "{name: s, adapter: openai, model: m, url: 'http://127.0.0.1:1/v1'}"
    found = _found(models=f"[m, {{name: n, model: m}}, {served}]")
    assert found["models[1]"].endswith("remove one")


def test_two_servers_of_one_model_need_two_campaigns() -> None:
    here = "adapter: openai, model: m, url: 'http://127.0.0.1:{}/v1'"
    models = f"[{{name: a, {here.format(1)}}}, {{name: b, {here.format(2)}}}]"
    assert _found(models=models)["models[1]"].endswith(
        "two servers of one model need two campaigns"
    )


def test_one_model_under_two_generation_settings_is_two() -> None:
    assert _found(models="[m, {name: n, generation: {temperature: 1}}]") == {}


def test_a_benchmark_and_subset_too_long_for_a_folder_are_refused() -> None:
    top = read("benchmarks: [recall]")
    (declared,) = read_benchmarks(top.inside("benchmarks"), mock_defaults())
    long = Workload(benchmark="recall", version="1", subset="9" * 200)
    check_names([], [], [type(declared)(**{**vars(declared), "workload": long})])
    assert "is longer than 200 bytes" in mistakes_of(top)["benchmarks[0]"]
