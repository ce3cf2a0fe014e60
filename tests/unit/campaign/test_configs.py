from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.campaign.configs import read_configs
from benchfleet.campaign.defaults import read_defaults
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config
from benchfleet.domain.matrix import ConfigOverrides
from benchfleet.models.attention.double_sparsity import DoubleSparsity

from .reading import mistakes_of, mock_defaults, read


def _read(text: str, defaults: str = "~") -> list[Config]:
    """The configs of a text in which nothing is wrong."""
    entry = read(text)
    configs = read_configs(entry, read_defaults(read(defaults)))
    assert mistakes_of(entry) == {}
    return [declared.config for declared in configs if declared.config]


def test_no_configs_at_all_mean_dense() -> None:
    assert _read("~") == [Config(name="dense")]


def test_null_is_dense_and_steps_stand_in_their_order() -> None:
    dense, streaming, top = _read(
        """\
        dense: null
        streaming: {attention: [{sink: 4}, {local: 1020}]}
        top-10%: {attention: [{sink: 128}, {local: 128}, {oracle_top_k: 0.10}], everywhere: true}
        """
    )
    assert dense == Config(name="dense")
    assert [step.name for step in streaming.attention] == ["sink", "local"]
    assert not streaming.everywhere
    assert [step.name for step in top.attention] == ["sink", "local", "oracle_top_k"]
    assert top.everywhere


def test_a_steps_parameters_are_complete_and_may_be_named() -> None:
    short, long = _read("a: {attention: {local: 64}}\nb: {attention: {local: {window_size: 64}}}")
    expected = (AttentionStep(name="local", params={"window_size": 64}, version=1),)
    assert short.attention == long.attention == expected


def test_a_percentage_is_the_fraction() -> None:
    first, second = _read(
        "a: {attention: {oracle_top_k: 10%}}\nb: {attention: {oracle_top_k: 0.10}}"
    )
    assert first.identity() == second.identity()


@pytest.mark.parametrize("attention", ["dense", "[dense]", "{dense: null}"])
def test_dense_written_as_a_step_is_dense(attention: str) -> None:
    (config,) = _read(f"full: {{attention: {attention}}}")
    assert config.attention == ()


def test_everywhere_follows_the_defaults_where_a_config_is_silent() -> None:
    text = "a: {attention: {sink: 4}}\nb: {attention: {sink: 4}, everywhere: false}"
    silent, own = _read(text, "everywhere: true")
    assert (silent.everywhere, own.everywhere) == (True, False)


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("c: {attention: {snk: 4}}", "c.attention.snk", "no attention config 'snk'; did you mean"),
        ("c: {attention: [{local: -1}]}", "c.attention[0].local", "window_size may not be"),
        ("c: {attention: [local]}", "c.attention[0]", "window_size is missing"),
        ("c: {attention: [{local: {windw: 1}}]}", "c.attention[0].local", "no parameter 'windw'"),
        ("c: {attention: [{sink: 4, local: 8}]}", "c.attention[0]", "must be one name with its"),
        ("c: {attention: [7]}", "c.attention[0]", "must be a name with its parameters"),
        ("c: {attention: [null]}", "c.attention[0]", "is empty"),
        ("c: {attention: []}", "c.attention", "names no step; leave it out"),
        ("c: {sink: 4}", "c.sink", "is a step; a config has its steps below 'attention': {att"),
        ("c: {atention: {sink: 4}}", "c.atention", "no key 'atention' here; did you mean"),
        (
            "c: [{sink: 4}]",
            "c",
            "must be a mapping of attention, settings, everywhere, …, not a list",
        ),
        ("c: {everywhere: yes}", "c.everywhere", "must be true or false, not 'yes'"),
        ("..: null", "'..'", "'..' may not start with a dot"),
        ("{}", "", "name at least one config"),
        ("[dense]", "", "must be a mapping of names, not a list"),
    ],
)
def test_what_is_wrong_with_a_config_is_reported_at_its_key(
    text: str, key: str, message: str
) -> None:
    entry = read(text)
    configs = read_configs(entry, mock_defaults())
    found = mistakes_of(entry)
    assert list(found) == [key]
    assert found[key].startswith(message)
    assert [declared.config for declared in configs] in ([], [None])


def test_a_config_overrides_model_and_generation_settings() -> None:
    entry = read(
        """\
        warm: {generation: {temperature: 0.7}, model_kwargs: {dtype: bfloat16}}
        int8: {quantization: bitsandbytes-int8}
        own: {quantization: {quant_method: gptq, bits: 4}}
        """
    )
    warm, int8, own = read_configs(entry, mock_defaults())
    assert mistakes_of(entry) == {}
    assert warm.overrides == ConfigOverrides(
        generation={"temperature": 0.7}, model_kwargs={"dtype": "bfloat16"}
    )
    assert int8.overrides.model_kwargs == {"quantization_config": {"load_in_8bit": True}}
    assert own.overrides.model_kwargs["quantization_config"]["quant_method"] == "gptq"


def test_keys_and_values_are_rounded_by_name_alone_or_with_attention() -> None:
    entry = read("{a: {kv_cache: int8}, b: {kv_cache: int4, attention: {local: 8}}}")
    configs = [declared.config for declared in read_configs(entry, mock_defaults())]
    assert [config and config.kv_cache for config in configs] == ["int8", "int4"]
    wrong = read("a: {kv_cache: int2}")
    read_configs(wrong, mock_defaults())
    assert mistakes_of(wrong) == {"a.kv_cache": "may not be 'int2'; use int8 or int4"}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a: {kvpress: {press: SnapKVPress}}", "a.kvpress"),
        ("a: {attention: [{sink: 4}, {kvpress: SnapKVPress}]}", "a.attention[1].kvpress"),
        ("a: {attention: kvpress}", "a.attention"),
    ],
)
def test_kvpress_is_refused_with_the_reason_and_a_way_to_run_it(text: str, key: str) -> None:
    entry = read(text)
    read_configs(entry, mock_defaults())
    assert list(mistakes_of(entry)) == [key]
    message = mistakes_of(entry)[key]
    assert "needs transformers below 5.3" in message
    assert "'python:' environment" in message


def test_a_wrong_quantization_is_named_with_the_near_one() -> None:
    entry = read("a: {quantization: bitsandbytes-in8}")
    read_configs(entry, mock_defaults())
    assert mistakes_of(entry) == {
        "a.quantization": "no quantization 'bitsandbytes-in8'; did you mean 'bitsandbytes-int8' "
        "or 'bitsandbytes-int4'?"
    }


def test_a_step_is_identified_by_the_content_of_its_files_and_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "channels.json"
    text = "c: {attention: {double_sparsity: {heavy_size: 8, sorted_channel_file: channels.json}}}"
    identities = []
    for content in ("{}", "[]"):
        file.write_text(content)
        entry = read(text)
        (declared,) = read_configs(entry, mock_defaults(), tmp_path)
        assert declared.config is not None
        (step,) = declared.config.attention
        assert step.params["sorted_channel_file"] == str(file)
        assert str(file) not in str(declared.config.identity())
        assert AttentionStep.from_list(step.to_list()) == step
        identities.append(declared.config.identity())
    assert identities[0] != identities[1]
    monkeypatch.setattr(DoubleSparsity, "version", DoubleSparsity.version + 1)
    (declared,) = read_configs(read(text), mock_defaults(), tmp_path)
    assert declared.config is not None
    assert declared.config.identity() not in identities  # the same file, and keeps other keys
    file.unlink()
    entry = read(text)
    read_configs(entry, mock_defaults(), tmp_path)
    assert "No such file" in next(iter(mistakes_of(entry).values()))


def test_a_mode_is_part_of_a_sparse_config_alone() -> None:
    entry = read("{c: {attention: {local: 8}, mode: fast}, d: {mode: fast}, e: {mode: quick}}")
    fast, dense, _ = read_configs(entry, mock_defaults())
    assert fast.config is not None
    assert fast.config.identity()["mode"] == "fast"
    assert dense.config is not None
    assert "mode" not in dense.config.identity()
    assert mistakes_of(entry) == {"e.mode": "may not be 'quick'; use measure or fast"}
