from __future__ import annotations

from collections.abc import Callable

import pytest

from benchfleet.campaign.configs import DeclaredConfig, read_configs
from benchfleet.campaign.defaults import Defaults, read_defaults
from benchfleet.campaign.entry import Entry
from benchfleet.domain.cell import AttentionStep, Config

Read = Callable[[str], Entry]
Said = Callable[[Entry], dict[str, str]]


def _config(declared: DeclaredConfig) -> Config:
    assert declared.config is not None
    return declared.config


def test_no_configs_at_all_mean_dense(read: Read, mock_defaults: Defaults) -> None:
    (declared,) = read_configs(read("~"), mock_defaults)
    assert _config(declared) == Config(name="dense")


def test_null_is_dense_and_steps_stand_in_their_order(
    read: Read, said: Said, mock_defaults: Defaults
) -> None:
    entry = read(
        """\
        dense: null
        streaming: {attention: [{sink: 4}, {local: 1020}]}
        top-10%: {attention: [{sink: 128}, {local: 128}, {oracle_top_k: 0.10}], everywhere: true}
        """
    )
    dense, streaming, top = read_configs(entry, mock_defaults)
    assert said(entry) == {}
    assert _config(dense) == Config(name="dense")
    assert [step.name for step in _config(streaming).attention] == ["sink", "local"]
    assert not _config(streaming).everywhere
    assert [step.name for step in _config(top).attention] == ["sink", "local", "oracle_top_k"]
    assert _config(top).everywhere


def test_a_steps_parameters_are_complete_and_may_be_named(
    read: Read, mock_defaults: Defaults
) -> None:
    short, long = read_configs(
        read("a: {attention: {local: 64}}\nb: {attention: {local: {window_size: 64}}}"),
        mock_defaults,
    )
    expected = (AttentionStep(name="local", params={"window_size": 64}, version=1),)
    assert _config(short).attention == _config(long).attention == expected


def test_a_percentage_is_the_fraction(read: Read, mock_defaults: Defaults) -> None:
    first, second = read_configs(
        read("a: {attention: {oracle_top_k: 10%}}\nb: {attention: {oracle_top_k: 0.10}}"),
        mock_defaults,
    )
    assert _config(first).identity() == _config(second).identity()


@pytest.mark.parametrize("attention", ["dense", "[dense]", "{dense: null}"])
def test_dense_written_as_a_step_is_dense(
    read: Read, mock_defaults: Defaults, attention: str
) -> None:
    (declared,) = read_configs(read(f"full: {{attention: {attention}}}"), mock_defaults)
    assert _config(declared).attention == ()


def test_everywhere_follows_the_defaults_where_a_config_is_silent(read: Read) -> None:
    defaults = read_defaults(read("everywhere: true"))
    silent, own = read_configs(
        read("a: {attention: {sink: 4}}\nb: {attention: {sink: 4}, everywhere: false}"), defaults
    )
    assert (_config(silent).everywhere, _config(own).everywhere) == (True, False)


def test_words_that_yaml_once_took_for_truths_are_names(
    read: Read, said: Said, mock_defaults: Defaults
) -> None:
    entry = read("no: null\non: null\n1.10: null")
    assert [declared.name for declared in read_configs(entry, mock_defaults)] == [
        "no",
        "on",
        "1.10",
    ]
    assert said(entry) == {}


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("c: {attention: {snk: 4}}", "c.attention.snk", "no attention config 'snk'; did you mean"),
        ("c: {attention: snk}", "c.attention", "no attention config 'snk'; did you mean"),
        ("c: {attention: [{local: -1}]}", "c.attention[0].local", "window_size may not be"),
        ("c: {attention: [local]}", "c.attention[0]", "window_size is missing"),
        ("c: {attention: [{local: {windw: 1}}]}", "c.attention[0].local", "no parameter 'windw'"),
        ("c: {attention: [{sink: 4, local: 8}]}", "c.attention[0]", "must be one name with its"),
        ("c: {attention: [{}]}", "c.attention[0]", "must be one name with its"),
        ("c: {attention: [7]}", "c.attention[0]", "must be a name with its parameters"),
        ("c: {attention: [null]}", "c.attention[0]", "is empty"),
        ("c: {attention: []}", "c.attention", "names no step; leave it out"),
        (
            "c: {sink: 4}",
            "c.sink",
            "is a step; a config has its steps below 'attention': {attention",
        ),
        ("c: {atention: {sink: 4}}", "c.atention", "no key 'atention' here; did you mean"),
        ("c: [{sink: 4}]", "c", "must be a mapping of attention, settings, everywhere, not a list"),
        ("c: {everywhere: yes}", "c.everywhere", "must be true or false, not 'yes'"),
        ("..: null", "'..'", "'..' may not start with a dot"),
        ("'': null", "''", "a name may not be empty"),
        ("{}", "", "name at least one config"),
        ("[dense]", "", "must be a mapping of names, not a list"),
    ],
)
def test_what_is_wrong_with_a_config_is_told_at_its_key(
    read: Read, said: Said, mock_defaults: Defaults, text: str, key: str, message: str
) -> None:
    entry = read(text)
    configs = read_configs(entry, mock_defaults)
    found = said(entry)
    assert list(found) == [key]
    assert found[key].startswith(message)
    assert [declared.config for declared in configs] in ([], [None])
