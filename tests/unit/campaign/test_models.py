from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchfleet.campaign.defaults import Defaults, read_defaults
from benchfleet.campaign.entry import Entry
from benchfleet.campaign.models import DeclaredModel, read_models
from benchfleet.domain.cell import Limits, Model
from benchfleet.domain.resource import Need

Read = Callable[[str], Entry]
Said = Callable[[Entry], dict[str, str]]
FOLDER = Path("/study")


def _model(declared: DeclaredModel) -> Model:
    assert declared.model is not None
    return declared.model.model


def test_a_bare_name_is_a_model_of_the_default_adapter(
    read: Read, said: Said, mock_defaults: Defaults
) -> None:
    entry = read("- meta-llama/Llama-3.1-8B-Instruct@0e9e39f")
    (declared,) = read_models(entry, mock_defaults, FOLDER)
    assert said(entry) == {}
    assert _model(declared) == Model(
        name="meta-llama/Llama-3.1-8B-Instruct@0e9e39f",
        adapter="mock",
        source="meta-llama/Llama-3.1-8B-Instruct@0e9e39f",
        digest="mock:meta-llama/Llama-3.1-8B-Instruct@0e9e39f",
        adapter_version=1,
    )


def test_a_mapping_says_all_there_is_to_say(
    read: Read, said: Said, mock_defaults: Defaults
) -> None:
    entry = read(
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
    (declared,) = read_models(entry, mock_defaults, FOLDER)
    assert said(entry) == {}
    assert _model(declared) == Model(
        name="r1",
        adapter="mock",
        source="deepseek-r1:32b@12",
        digest="mock:deepseek-r1:32b@12",
        model_kwargs={"answer": "4"},
        tokenizer_kwargs={"a": 1},
        python=sys.executable,
        adapter_version=1,
    )
    assert declared.model is not None
    assert declared.model.need == Need(gpus=2, vram=22 * 10**9)
    assert declared.model.priority == -3
    assert declared.generation == {"temperature": 1}


@pytest.mark.parametrize(
    ("path", "source"),
    [("./model", "/study/model"), ("../m", "/m"), ("/abs/m", "/abs/m"), ("a/../b", "/study/b")],
)
def test_a_path_starts_at_the_campaigns_folder(
    read: Read, mock_defaults: Defaults, path: str, source: str
) -> None:
    (declared,) = read_models(read(f"- {{name: tiny, path: {path}}}"), mock_defaults, FOLDER)
    assert _model(declared).source == source


def test_a_model_without_a_name_is_called_as_its_adapter_knows_it(
    read: Read, mock_defaults: Defaults
) -> None:
    (declared,) = read_models(read("- {model: 'org/m', revision: v1}"), mock_defaults, FOLDER)
    assert (declared.name, _model(declared).source) == ("org/m", "org/m@v1")


def test_a_name_alone_is_what_the_adapter_opens(read: Read, mock_defaults: Defaults) -> None:
    (declared,) = read_models(read("- {name: org/m}"), mock_defaults, FOLDER)
    assert _model(declared).source == "org/m"


def test_default_kwargs_lie_below_a_models_own(read: Read) -> None:
    defaults = read_defaults(
        read("{adapter: mock, model_kwargs: {answer: a, seconds: 1}, tokenizer_kwargs: {t: 1}}")
    )
    entry = read("- {name: m, model_kwargs: {answer: b}, tokenizer_kwargs: {u: 2}}")
    (declared,) = read_models(entry, defaults, FOLDER)
    assert _model(declared).model_kwargs == {"answer": "b", "seconds": 1}
    assert _model(declared).tokenizer_kwargs == {"t": 1, "u": 2}


def test_default_kwargs_are_the_default_adapters_alone(read: Read) -> None:
    defaults = read_defaults(read("{model_kwargs: {dtype: bfloat16}, tokenizer_kwargs: {t: 1}}"))
    (declared,) = read_models(read("- {name: m, adapter: mock}"), defaults, FOLDER)
    assert _model(declared).model_kwargs == {}
    assert _model(declared).tokenizer_kwargs == {}


def test_stated_memory_alone_asks_for_one_gpu(read: Read, mock_defaults: Defaults) -> None:
    (declared,) = read_models(read("- {name: m, needs: {vram: 8GiB}}"), mock_defaults, FOLDER)
    assert declared.model is not None
    assert declared.model.need == Need(gpus=1, vram=8 * 2**30)


@pytest.mark.parametrize(
    ("item", "key", "message"),
    [
        ("../x", "[0]", "to open a folder, write {name: …, path: ../x}"),
        ("./model", "[0]", "to open a folder, write {name: …, path: ./model}"),
        ("7", "[0]", "must be a mapping of name, adapter, path, …, not 7"),
        ("", "[0]", "is empty; write something there, or remove it"),
        ("{name: ..}", "[0].name", "'..' may not start with a dot"),
        ("{model: {a: 1}}", "[0].model", "must be text, not a mapping"),
        ("{name: 7}", "[0].name", "must be text, not 7; put it in quotes"),
        ("{path: x}", "[0]", "has no name; write {name: …, path: …} or {name: …, model: …}"),
        ("{name: m, path: ''}", "[0]", "names nothing to open"),
        ("{name: m, path: x, model: y}", "[0].path", "stands beside 'model'"),
        ("{name: m, path: x, revision: y}", "[0].revision", "a folder has no revision"),
        ("{name: m, adapter: mok}", "[0].adapter", "no adapter 'mok'; did you mean 'mock'?"),
        ("{name: m, needs: {vram: 22XB}}", "[0].needs.vram", "'22XB' is not a size; write 22GB"),
        ("{name: m, needs: {gpu: 1}}", "[0].needs.gpu", "no key 'gpu' here; did you mean 'gpus'?"),
        ("{name: m, needs: {gpus: -1}}", "[0].needs.gpus", "must be a whole number, 0 or more"),
        ("{name: m, priority: high}", "[0].priority", "must be a whole number"),
        ("{name: m, python: env/bin/python}", "[0].python", "there is no interpreter /study/env"),
        ("{name: m, python: pythn9}", "[0].python", "there is no interpreter pythn9"),
        ("{name: m, modelkwargs: {}}", "[0].modelkwargs", "no key 'modelkwargs' here; did you"),
    ],
)
def test_what_is_wrong_with_a_model_is_told_at_its_key(
    read: Read, said: Said, mock_defaults: Defaults, item: str, key: str, message: str
) -> None:
    entry = read(f"- {item}")
    (declared,) = read_models(entry, mock_defaults, FOLDER)
    found = said(entry)
    assert list(found) == [key]
    assert found[key].startswith(message)
    assert declared.model is None


def test_a_wrong_default_adapter_is_told_once_where_it_stands(read: Read, said: Said) -> None:
    top = read("{defaults: {adapter: mok}, models: [a, b]}")
    defaults = read_defaults(top.inside("defaults"))
    models = read_models(top.inside("models"), defaults, FOLDER)
    assert said(top) == {"defaults.adapter": "no adapter 'mok'; did you mean 'mock'?"}
    assert [(model.name, model.model) for model in models] == [("a", None), ("b", None)]


@pytest.mark.parametrize("text", ["[]", "~"])
def test_a_matrix_without_models_is_a_mistake(
    read: Read, said: Said, mock_defaults: Defaults, text: str
) -> None:
    entry = read(text)
    assert read_models(entry, mock_defaults, FOLDER) == []
    assert "name at least one model" in said(entry)[""]


def test_a_models_limits_go_over_those_of_the_defaults(read: Read, said: Said) -> None:
    defaults = read_defaults(
        read("{adapter: mock, limits: {cell: 6h, tries: 5, ram: 16GB, disk: 5GB}}")
    )
    entry = read("[{name: large, limits: {ram: 64GB, tries: 1}}, {name: small}]")
    large, small = read_models(entry, defaults, FOLDER)
    assert said(entry) == {}
    assert large.model is not None
    assert small.model is not None
    assert large.model.limits == Limits(cell=21_600, tries=1, ram=64 * 10**9, disk=5 * 10**9)
    assert small.model.limits is None


def test_room_on_the_disk_is_no_matter_of_one_model(
    read: Read, said: Said, mock_defaults: Defaults
) -> None:
    entry = read("[{name: m, limits: {disk: 5GB}}]")
    read_models(entry, mock_defaults, FOLDER)
    assert "no key 'disk' here" in said(entry)["[0].limits.disk"]


def test_a_model_has_variants_with_settings_of_their_own(
    read: Read, mock_defaults: Defaults
) -> None:
    entry = read(
        """
        - name: r1-7b
          size: 15GB
          variants:
            - {name: r1-7b-q4, size: 4.7GB, model_kwargs: {answer: x}}
            - r1-1b
        """
    )
    (declared,) = read_models(entry, mock_defaults, FOLDER)
    assert declared.model is not None
    assert declared.model.size == 15 * 10**9
    assert [one.name for one in declared.variants] == ["r1-7b-q4", "r1-1b"]


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("variants: [{name: b, variants: [c]}]", "[0].variants[0].variants", "no key 'variants'"),
        ("variants: [{name: b, priority: 2}]", "[0].variants[0].priority", "no key 'priority'"),
        ("variants: b", "[0].variants", "must be a list"),
        ("size: big", "[0].size", "'big' is not a size"),
    ],
)
def test_a_wrong_variant_is_a_mistake(
    read: Read, said: Said, mock_defaults: Defaults, text: str, key: str, message: str
) -> None:
    entry = read(f"- {{name: a, {text}}}")
    read_models(entry, mock_defaults, FOLDER)
    assert message in said(entry)[key]
