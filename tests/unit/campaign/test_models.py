from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchfleet.campaign.declared_model import DeclaredModel
from benchfleet.campaign.defaults import read_defaults
from benchfleet.campaign.models import read_models
from benchfleet.domain.cell import Model
from benchfleet.domain.limits import Limits
from benchfleet.domain.matrix import ModelEntry
from benchfleet.domain.resource import Need

from .reading import mistakes_of, mock_defaults, read

FOLDER = Path("/study")


def _read(text: str, defaults: str = "{adapter: mock}") -> list[tuple[DeclaredModel, ModelEntry]]:
    """The models of a text in which nothing is wrong."""
    entry = read(text)
    models = read_models(entry, read_defaults(read(defaults)), FOLDER)
    assert mistakes_of(entry) == {}
    return [(declared, declared.model) for declared in models if declared.model]


def test_a_bare_name_is_a_model_of_the_default_adapter() -> None:
    ((_, entry),) = _read("- meta-llama/Llama-3.1-8B-Instruct@0e9e39f")
    assert entry.model == Model(
        name="meta-llama/Llama-3.1-8B-Instruct@0e9e39f",
        adapter="mock",
        source="meta-llama/Llama-3.1-8B-Instruct@0e9e39f",
        digest="mock:meta-llama/Llama-3.1-8B-Instruct@0e9e39f",
        adapter_version=1,
    )


def test_a_mapping_says_all_there_is_to_say() -> None:
    ((declared, entry),) = _read(
        f"""\
        - name: r1
          adapter: mock
          model: "deepseek-r1:32b"
          revision: 12
          python: {sys.executable}
          model_kwargs: {{answer: "4"}}
          tokenizer_kwargs: {{a: 1}}
          generation: {{temperature: 1}}
          needs: {{gpus: 2, vram: 22GB}}
          priority: -3
        """
    )
    assert entry.model == Model(
        name="r1",
        adapter="mock",
        source="deepseek-r1:32b@12",
        digest="mock:deepseek-r1:32b@12",
        model_kwargs={"answer": "4"},
        tokenizer_kwargs={"a": 1},
        python=sys.executable,
        adapter_version=1,
    )
    assert entry.need == Need(gpus=2, vram=22 * 10**9)
    assert entry.priority == -3
    assert declared.generation == {"temperature": 1}


@pytest.mark.parametrize(
    ("path", "source"),
    [("./model", "/study/model"), ("../m", "/m"), ("/abs/m", "/abs/m"), ("a/../b", "/study/b")],
)
def test_a_path_starts_at_the_campaigns_folder(path: str, source: str) -> None:
    ((_, entry),) = _read(f"- {{name: tiny, path: {path}}}")
    assert entry.model.source == source


def test_a_model_without_a_name_is_called_as_its_adapter_knows_it() -> None:
    ((declared, entry),) = _read("- {model: 'org/m', revision: v1}")
    assert (declared.name, entry.model.source) == ("org/m", "org/m@v1")


def test_a_name_alone_is_what_the_adapter_opens() -> None:
    ((_, entry),) = _read("- {name: org/m}")
    assert entry.model.source == "org/m"


def test_default_kwargs_lie_below_a_models_own() -> None:
    ((_, entry),) = _read(
        "- {name: m, model_kwargs: {answer: b}, tokenizer_kwargs: {u: 2}}",
        "{adapter: mock, model_kwargs: {answer: a, seconds: 1}, tokenizer_kwargs: {t: 1}}",
    )
    assert entry.model.model_kwargs == {"answer": "b", "seconds": 1}
    assert entry.model.tokenizer_kwargs == {"t": 1, "u": 2}


def test_default_kwargs_are_the_default_adapters_alone() -> None:
    defaults = "{model_kwargs: {dtype: bfloat16}, tokenizer_kwargs: {t: 1}}"
    ((_, entry),) = _read("- {name: m, adapter: mock}", defaults)
    assert entry.model.model_kwargs == entry.model.tokenizer_kwargs == {}


def test_stated_memory_alone_asks_for_one_gpu() -> None:
    ((_, entry),) = _read("- {name: m, needs: {vram: 8GiB}}")
    assert entry.need == Need(gpus=1, vram=8 * 2**30)


@pytest.mark.parametrize(
    ("item", "key", "message"),
    [
        ("../x", "[0]", "to open a folder, write {name: …, path: ../x}"),
        ("7", "[0]", "must be a mapping of name, adapter, path, …, not 7"),
        ("", "[0]", "is empty; write something there, or remove it"),
        ("{name: ..}", "[0].name", "'..' may not start with a dot"),
        ("{model: {a: 1}}", "[0].model", "must be text, not a mapping"),
        ("{path: x}", "[0]", "has no name; write {name: …, path: …} or {name: …, model: …}"),
        ("{name: m, path: ''}", "[0]", "names nothing to open"),
        ("{name: m, path: x, model: y}", "[0].path", "stands beside 'model'"),
        ("{name: m, path: x, revision: y}", "[0].revision", "a folder has no revision"),
        ("{name: m, adapter: mok}", "[0].adapter", "no adapter 'mok'; did you mean 'mock'?"),
        ("{name: m, needs: {vram: 22XB}}", "[0].needs.vram", "'22XB' is not a size; write 22GB"),
        ("{name: m, needs: {gpu: 1}}", "[0].needs.gpu", "no key 'gpu' here; did you mean 'gpus'?"),
        ("{name: m, priority: high}", "[0].priority", "must be a whole number"),
        ("{name: m, python: env/bin/python}", "[0].python", "interpreter /study/env"),
        ("{name: m, modelkwargs: {}}", "[0].modelkwargs", "no key 'modelkwargs' here; did you"),
    ],
)
def test_what_is_wrong_with_a_model_is_reported_at_its_key(
    item: str, key: str, message: str
) -> None:
    entry = read(f"- {item}")
    (declared,) = read_models(entry, mock_defaults(), FOLDER)
    found = mistakes_of(entry)
    assert list(found) == [key]
    assert found[key].startswith(message)
    assert declared.model is None


def test_a_wrong_default_adapter_is_reported_once_where_it_stands() -> None:
    top = read("{defaults: {adapter: mok}, models: [a, b]}")
    defaults = read_defaults(top.inside("defaults"))
    models = read_models(top.inside("models"), defaults, FOLDER)
    assert mistakes_of(top) == {"defaults.adapter": "no adapter 'mok'; did you mean 'mock'?"}
    assert [(model.name, model.model) for model in models] == [("a", None), ("b", None)]


def test_a_models_limits_go_over_those_of_the_defaults() -> None:
    (_, large), (_, small) = _read(
        "[{name: large, limits: {ram: 64GB, tries: 1}}, {name: small}]",
        "{adapter: mock, limits: {cell: 6h, tries: 5, ram: 16GB, disk: 5GB}}",
    )
    assert large.limits == Limits(cell=21_600, tries=1, ram=64 * 10**9, disk=5 * 10**9)
    assert small.limits is None


def test_a_model_has_variants_with_settings_of_their_own() -> None:
    ((declared, entry),) = _read(
        """
        - name: r1-7b
          size: 15GB
          variants:
            - {name: r1-7b-q4, size: 4.7GB, model_kwargs: {answer: x}}
            - r1-1b
        """
    )
    assert entry.size == 15 * 10**9
    assert [one.name for one in declared.variants] == ["r1-7b-q4", "r1-1b"]


def test_a_variant_is_asked_as_its_model_where_it_says_nothing_else() -> None:
    ((declared, _),) = _read(
        """
        - name: r1-7b
          generation: {max_new_tokens: 2, temperature: 0.5}
          limits: {tries: 1, cell: 5m}
          variants:
            - {name: r1-7b-q4, generation: {max_new_tokens: 8}, limits: {tries: 2}}
            - r1-1b
        """
    )
    own, other = declared.variants
    assert own.generation == {"max_new_tokens": 8, "temperature": 0.5}
    assert other.generation == declared.generation
    limits = [one.model and one.model.limits for one in (own, other)]
    assert [one and (one.tries, one.cell) for one in limits] == [(2, 300), (1, 300)]


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("variants: [{name: b, variants: [c]}]", "[0].variants[0].variants", "no key 'variants'"),
        ("variants: [{name: b, priority: 2}]", "[0].variants[0].priority", "no key 'priority'"),
        ("variants: b", "[0].variants", "must be a list"),
        ("size: big", "[0].size", "'big' is not a size"),
        ("limits: {disk: 5GB}", "[0].limits.disk", "no key 'disk' here"),
    ],
)
def test_a_wrong_variant_size_or_limit_is_a_mistake(text: str, key: str, message: str) -> None:
    entry = read(f"- {{name: a, {text}}}")
    read_models(entry, mock_defaults(), FOLDER)
    assert message in mistakes_of(entry)[key]


SERVED = "- {name: m, adapter: openai, model: gpt, url: 'http://%s/v1', key: 'env:K', api: %s}"


def test_address_and_key_of_a_served_model_are_outside_its_identity() -> None:
    models = [
        _read(SERVED % (host, api))[0][1].model
        for host, api in (("a", "chat"), ("b", "chat"), ("a", "completions"))
    ]
    one, moved, other = (model.identity() for model in models)
    assert one == moved != other
    assert models[0].outside == {"url": "http://a/v1", "key": "env:K"}


def test_keys_of_a_served_model_are_checked() -> None:
    entry = read(
        """\
        - {name: a, adapter: mock, url: "http://x"}
        - {name: b, adapter: openai, price: {in: 1 USD, out: 2 EUR}}
        - {name: c, adapter: openai, price: {in: free}}
        - {name: d, adapter: openai, server: {args: []}}
        """
    )
    read_models(entry, mock_defaults(), FOLDER)
    assert mistakes_of(entry) == {
        "[0].url": "the adapter mock takes no 'url'; remove it",
        "[1].price": "has two currencies; write one",
        "[2].price.in": "'free' is not an amount of money; write 20 USD",
        "[3].server": "the adapter openai takes no 'server'; remove it",
    }
