"""The schema that editors are given says what the reader does."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from benchfleet.campaign import benchmarks, judge, load, models
from benchfleet.campaign.entry import Entry
from benchfleet.campaign.load import read_campaign
from benchfleet.campaign.matrices import MATRIX
from benchfleet.campaign.phases import PHASES
from benchfleet.campaign.schema import campaign_schema
from benchfleet.campaign.source import Source
from benchfleet.campaign.yaml_reader import read_yaml
from benchfleet.errors import CampaignError

ROOT = Path(__file__).parents[3]
FULL = """\
campaign: study
results: ./out
gpus: [0, 1]
cpu_slots: 2
max_concurrent_runs: 3
eligibility:
  e0: {when: gpus > 0, phases: "e*", models: "m*", variants: true}
  tiers: [{tier: 1, when: e0, role: everything}]
defaults:
  adapter: mock
  model_kwargs: {answer: "7"}
  tokenizer_kwargs: {a: 1}
  generation: {max_new_tokens: 3}
  batch_size: 2
  repeats: 2
  limits: {cell: 1h30m, tries: 2}
  everywhere: true
matrix:
  models:
    - plain
    - {name: one, adapter: mock, model: m, revision: 3, python: python3, model_kwargs: {seconds: 0},
       tokenizer_kwargs: {b: 1}, generation: {temperature: 0}, needs: {gpus: 2, vram: 22GB},
       priority: -3, size: 3GB, variants: [{name: small, adapter: mock, size: 1GB}]}
    - {name: two, adapter: mock, path: ./there, model_kwargs: {answer: "8"}}
  configs:
    dense: null
    bare: {attention: {local: 4}, settings: {a: 1}}
    both: {attention: [{sink: {sink_size: 4}}, {local: 10%}], everywhere: false}
  benchmarks:
    - mock_benchmark
    - recall: [128, "256"]
    - recall: {subsets: 512, samples: 5, batch_size: 4, limit: 2, generation: {max_new_tokens: 1}}
  hardware: [A100 80GB, {name: here, gpu: H100, gpus: 1, provider: local}]
  exclude: {models: "!plain", configs: [bare, both], benchmarks: recall, subsets: 128, repeats: 1}
  include:
    - {models: one, configs: dense, benchmarks: recall, subsets: [128], repeats: 5}
phases:
  - {name: first, only: {benchmarks: mock_benchmark}, gate: min(score) > 0.5, critical: true}
  - {name: second, only: [{subsets: 128}], exclude: {models: two}, critical: {models: plain}}
  - {name: third, matrix: {benchmarks: [recall: 1024]}, requires: [first]}
  - name: fourth
    matrix:
      models: [{name: other, adapter: mock}]
      benchmarks: [recall: 1024]
      exclude: {repeats: 1}
    critical: [{models: other}]
    requires: second
runners: {lab-a: {phases: first, models: [one, "!t*"]}, "*": null}
suites: {core: {benchmarks: {recall: 2, mock_benchmark: 1}, mean: weights}}
notify: {to: [env:CHAT, "file:~/chat"], on: [budget, failures], failures: 5%, every: 1h}
race: {confidence: 99%, keep: [both]}
"""


def _data(text: str = FULL) -> Any:
    return read_yaml(text).data


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = campaign_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def _refused(data: Any) -> list[str]:
    """The keys that the reader finds something wrong with."""
    try:
        read_campaign(Source(data=data), file=Path("/nowhere/study.yaml"), file_label="study.yaml")
    except CampaignError as error:
        return [mistake.key for mistake in error.mistakes]
    return []


def _mappings(shape: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every mapping of set keys in the schema: its dotted place and its keys."""
    if properties := shape.get("properties"):
        yield path, set(properties)
        for key, inner in properties.items():
            yield from _mappings(inner, f"{path}.{key}".lstrip("."))
    for inner in shape.get("anyOf", ()):
        yield from _mappings(inner, path)
    for inside in ("items", "additionalProperties"):
        if isinstance(shape.get(inside), Mapping):
            yield from _mappings(shape[inside], f"{path}.*")


def test_the_schema_has_the_reader_s_keys_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the reader takes at each place is noted while it reads a file that has everything."""
    read: dict[str, set[str]] = {}
    fields = Entry.fields

    def noted(entry: Entry, known: Collection[str], **more: Mapping[str, str]) -> dict[str, Entry]:
        place = ".".join(part if isinstance(part, str) else "*" for part in entry.path)
        read.setdefault(place.replace("configs.both", "configs.*"), set()).update(known)
        return fields(entry, known, **more)

    monkeypatch.setattr(Entry, "fields", noted)
    assert _refused(_data()) == []
    written: dict[str, set[str]] = {}
    for place, keys in _mappings(campaign_schema()):
        written.setdefault(place, set()).update(keys)
    benchmark = "matrix.benchmarks.*.*"  # has parameters of its own, so is read as any mapping
    assert written.pop(benchmark) == set(benchmarks.KEYS)
    assert written.pop(f"{benchmark}.judge") == set(judge.KEYS)
    # Rules have names of their own, as configs have, beside this one key.
    assert written.pop("eligibility") == {"tiers"}
    read["eligibility.*"] = read.pop("eligibility.e0")
    # An exclude that stands alone is read at the list's own place.
    alone = "matrix.exclude"
    assert written.pop(f"{alone}.*") == written[alone]
    written["matrix.include.*"] = written.pop("matrix.include")
    read["runners.*"] = read.pop("runners.lab-a") | read.pop("runners.*")
    read["suites.*"] = read.pop("suites.core")
    # The matrix of a phase, and its rules, are those of the campaign.
    for place in [place for place in written if place.startswith("phases.*.")]:
        found = written.pop(place)
        if ".matrix" not in place:
            assert found == written[alone], place
    for place in [place for place in read if place.startswith("phases.*.")]:
        del read[place]
    same = campaign_schema()["properties"]["matrix"]["anyOf"][0]
    one = PHASES["items"]["properties"]["matrix"]["anyOf"][0]
    assert one["properties"] == same["properties"]
    for one in ("dense", "bare"):
        for part in ("", ".server", ".chat", ".thinking"):
            config_keys = read.pop(f"matrix.configs.{one}{part}")
            assert config_keys == written[f"matrix.configs.*{part}"]
    assert read == written


@pytest.mark.slow
def test_a_file_that_has_everything_is_right_by_both(validator: Draft202012Validator) -> None:
    assert [error.message for error in validator.iter_errors(_data())] == []
    assert _refused(_data()) == []


def test_the_shipped_campaigns_and_the_guide_s_example_are_right(
    validator: Draft202012Validator,
) -> None:
    guide = (ROOT / "docs" / "campaign.md").read_text().split("```yaml\n")[1].split("```")[0]
    texts = [file.read_text() for file in sorted((ROOT / "examples").rglob("campaign*.yaml"))]
    assert texts
    for text in (*texts, guide):
        assert [error.message for error in validator.iter_errors(_data(text))] == []


_WRONG = [
    ("campaign", "../x"),
    ("results", 3),
    ("gpus", 0),
    ("gpus", [-1]),
    ("cpu_slots", 0),
    ("max_concurrent_runs", 1.5),
    ("max_concurrent_runs", 10**7),
    ("matrix", None),
    ("unknown", 1),
    ("defaults.adapter", "mok"),
    ("defaults.repeats", 10_001),
    ("defaults.limits", {"cell": "6 hours"}),
    ("defaults.limits", {"tries": 0}),
    ("defaults.limits", {"trys": 1}),
    ("defaults.everywhere", "yes"),
    ("defaults.generation", []),
    ("matrix.models", []),
    ("matrix.models", [3]),
    ("matrix.models", [{"name": "a", "needs": {"vram": "22XB"}}]),
    ("matrix.models", [{"name": "a", "needs": {"gpus": -1}}]),
    ("matrix.models", [{"name": "a", "pth": "b"}]),
    ("matrix.configs", {}),
    ("matrix.configs", {".": None}),
    ("matrix.configs", {"a": {"attention": {"lokal": 4}}}),
    ("matrix.configs", {"a": {"attention": [{"sink": 4, "local": 4}]}}),
    ("matrix.configs", {"a": 4}),
    ("matrix.benchmarks", []),
    ("matrix.benchmarks", ["mock_benchmrk"]),
    ("matrix.benchmarks", [{"recall": [128], "mock_benchmark": None}]),
    ("matrix.benchmarks", [{"recall": {"limit": 0}}]),
    ("matrix.exclude", [{"modles": "a"}]),
    ("matrix.include", [{"models": "one", "repeats": 0}]),
    ("phases", []),
    ("runners", ["lab"]),
    ("runners", {"lab": {"model": "one"}}),
    ("matrix.configs", {"a": {"settings": 3}}),
    ("phases", "first"),
    ("phases", [{"gate": "score > 0"}]),
    ("phases", [{"name": "a", "gates": "score > 0"}]),
    ("phases", [{"name": "a", "gate": 0.9}]),
    ("phases", [{"name": "a", "only": {"modles": "x"}}]),
    ("phases", [{"name": "a", "critical": "yes"}]),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), _WRONG, ids=lambda value: json.dumps(value)[:40])
def test_what_the_schema_refuses_the_reader_refuses(
    validator: Draft202012Validator, key: str, value: Any
) -> None:
    data = _data()
    if not key.startswith("phases"):
        del data["phases"]  # they may bring what the matrix lacks
    *above, last = key.split(".")
    place = data
    for part in above:
        place = place[part]
    place[last] = value
    assert not validator.is_valid(data)
    assert any(found.startswith(key) for found in _refused(data))


def test_null_stands_for_the_default_of_every_key_that_has_one(
    validator: Draft202012Validator,
) -> None:
    data = {
        **dict.fromkeys(set(load.KEYS) - set(load.REQUIRED)),
        "campaign": "study",
        "matrix": {
            **dict.fromkeys(MATRIX),
            "models": [{**dict.fromkeys(models.KEYS), "name": "m", "adapter": "mock"}],
            "benchmarks": [{"mock_benchmark": dict.fromkeys(benchmarks.KEYS)}],
        },
    }
    assert [error.message for error in validator.iter_errors(data)] == []
    assert _refused(data) == []
