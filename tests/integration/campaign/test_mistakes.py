"""Campaign files that are wrong: every mistake at once, with its key and line and what to do."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.errors import CampaignError
from benchfleet.results.stores import object_store

from .conftest import GOOD, mistakes_in, write


def test_a_file_without_permission_is_one_mistake(
    ordinary_user: Callable[[Callable[[], object]], str],
) -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    file = write(folder, GOOD)
    file.chmod(0)
    output = ordinary_user(lambda: load_campaign(file))
    shutil.rmtree(folder)
    assert output.startswith("CampaignError")
    assert "1 mistake" in output
    assert "cannot be read: Permission denied" in output


def test_every_mistake_is_reported_at_once_with_key_line_and_what_to_do(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """\
        campaign: ../x
        resluts: x
        defaults: {adapter: mock, repeats: 0}
        matrix:
          models:
            - one
            - {name: two, needs: {vram: 22XB}}
          configs:
            dense: null
            Dense: {attention: [{lokal: 4}]}
          benchmarks:
            - recall: [128, 12]
            - mock_benchmrk
          exclude:
            - {models: tow}
        """,
    )
    with pytest.raises(CampaignError) as caught:
        load_campaign(file)
    title, *rows = str(caught.value).splitlines()
    assert title == f"{file}: 9 mistakes, nothing was run"
    assert [" ".join(row.split()) for row in rows] == [
        "line 1 campaign '../x' may not start with a dot; results folders bear this name",
        "line 2 resluts no key 'resluts' here; did you mean 'results'?",
        "line 3 defaults.repeats must be a whole number, 1 or more, not 0",
        "line 7 matrix.models[1].needs.vram '22XB' is not a size; write 22GB",
        "line 10 matrix.configs.Dense.attention[0].lokal no attention config 'lokal'; "
        "did you mean 'local'?",
        "line 10 matrix.configs.Dense 'dense' and 'Dense' would share the folder 'Dense'; "
        "rename one",
        "line 12 matrix.benchmarks[0].recall a text of 12 characters is too short; "
        "ask for 32 or more",
        "line 13 matrix.benchmarks[1] no benchmark 'mock_benchmrk'; did you mean 'mock_benchmark'?",
        "line 15 matrix.exclude[0].models no model 'tow' in this matrix; did you mean 'two'?",
    ]


@pytest.mark.parametrize(
    ("key", "where"),
    [("repeats", "defaults"), ("tries", "defaults.limits"), ("limits", "defaults")],
)
def test_a_key_that_belongs_elsewhere_is_reported_where(
    tmp_path: Path, key: str, where: str
) -> None:
    output = f"no key {key!r} here; it belongs in '{where}'"
    text = f"campaign: study\n{key}: 3\nmatrix:\n  {key}: 3\n  models: [m]\n  benchmarks: [b]\n"
    mistakes = {one.key: one.message for one in mistakes_in(write(tmp_path, text))}
    assert (mistakes[key], mistakes[f"matrix.{key}"]) == (output, output)
    text = f"campaign: study\nmodels: [m]\nphases: [{{name: p, {key}: 3}}]\n"
    mistakes = {one.key: one.message for one in mistakes_in(write(tmp_path, text))}
    assert mistakes["models"] == "no key 'models' here; it belongs in 'matrix'"
    assert mistakes[f"phases[0].{key}"] == output


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "is empty; a campaign begins with", None),
        ("# nothing\n", "is empty; a campaign begins with", None),
        ("- a\n- b\n", "must be a mapping that begins with 'campaign: NAME', not a list", 1),
        ("only text", "must be a mapping that begins with 'campaign: NAME', not 'only text'", 1),
        ("a: [1,\n", "is not YAML", 2),
        (b"campaign: caf\xe9\n", "is not UTF-8 text; save it as UTF-8", 1),
        (b"a: 1\nb: \xff\xfe\n", "is not UTF-8 text; save it as UTF-8", 2),
        (b"\x00\x01\x02", "is not YAML", None),
    ],
)
def test_what_is_no_campaign_at_all_is_one_mistake(
    tmp_path: Path, text: str | bytes, message: str, line: int | None
) -> None:
    (mistake,) = mistakes_in(write(tmp_path, text))
    assert mistake.key == ""
    assert mistake.message.startswith(message)
    assert mistake.line == line


def test_a_file_that_cannot_be_read_is_one_mistake(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    large = write(tmp_path, b"#" * 10_000_001, "large.yaml")
    files = {
        tmp_path / "missing.yaml": "file not found",
        tmp_path / "folder.yaml": "is a folder; name the campaign file in it",
        write(tmp_path, GOOD, "study.txt"): "unknown suffix for this campaign file; use .yaml",
        write(tmp_path, GOOD, "study"): "unknown suffix for this campaign file; use .yaml",
        write(tmp_path, GOOD, "a.yaml") / "b.yaml": "file not found",
        tmp_path / "nul\0.yaml": "file not found",
        tmp_path / "pipe.yaml": "is not a regular file",
        large: "is larger than 10 MB",
    }
    for file, message in files.items():
        (mistake,) = mistakes_in(file)
        assert (mistake.key, mistake.line) == ("", None)
        assert mistake.message.startswith(message), (file, mistake.message)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("campaign: attention/study", "", ("campaign", "the campaign needs a name")),
        ("campaign: attention/study", "campaign: 7", ("campaign", "must be text, not 7")),
        ("defaults:", "results: s4://b/p\ndefaults:", ("results", "no results store 's4'")),
        ("defaults:", "results: ''\ndefaults:", ("results", "names no folder")),
        ("defaults:", "results: ' '\ndefaults:", ("results", "names no folder")),
        ("defaults:", "max_concurrent_runs: 0\ndefaults:", ("max_concurrent_runs", "must be a")),
        ("defaults:", "gpus: [x]\ndefaults:", ("gpus[0]", "must be a whole number, 0 or more")),
        ("tries: 2", "tries: none", ("defaults.limits.tries", "must be a whole number")),
    ],
)
def test_one_wrong_line_is_one_mistake(
    tmp_path: Path, old: str, new: str, expected: tuple[str, str]
) -> None:
    key, message = expected
    assert old in GOOD
    file = write(tmp_path, GOOD.replace(old, new))
    (mistake,) = mistakes_in(file)
    assert mistake.key == key
    assert mistake.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "store"),
    [
        ("file:relstore", "file:///path/to/relstore"),
        ("file:/mnt/nas", "file:///mnt/nas"),
        ("s3:bucket/p", "s3://bucket/p"),
        ("rsync:nas.lab", "rsync://nas.lab"),
    ],
)
def test_results_that_only_look_like_a_store_are_no_folder(
    tmp_path: Path, text: str, store: str
) -> None:
    file = write(tmp_path, GOOD.replace("defaults:", f"results: {text}\ndefaults:"))
    (mistake,) = mistakes_in(file)
    assert mistake.key == "results"
    assert f"write {store} for one, or ./{text} for a folder" in mistake.message


def test_a_folder_may_have_the_name_of_a_store(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD.replace("defaults:", "results: ./s3:bucket\ndefaults:"))
    assert load_campaign(file).results.parts[-2] == "s3:bucket"


def test_a_file_without_a_matrix_says_so_once(tmp_path: Path) -> None:
    (mistake,) = mistakes_in(write(tmp_path, "campaign: a\n"))
    assert mistake.key == "matrix"
    assert mistake.message.startswith("is missing")


def test_a_missing_model_folder_is_a_mistake_at_its_path(tmp_path: Path) -> None:
    text = GOOD.replace("- one\n", "- {name: one, adapter: transformers, path: ./modle}\n")
    (mistake,) = mistakes_in(write(tmp_path, text))
    assert mistake.key == "matrix.models[0].path"
    assert str(tmp_path / "modle") in mistake.message
    assert mistake.line == 9


def test_wrong_generation_and_gpus_are_reported_beside_a_wrong_model(tmp_path: Path) -> None:
    text = """\
    campaign: study
    gpus: [0, 0]
    defaults: {adapter: transformers, generation: {temprature: 1}}
    matrix:
      models: [{name: a, path: ./missing}]
      benchmarks: [recall: [128]]
    """
    mistakes = {one.key: one.line for one in mistakes_in(write(tmp_path, text))}
    assert mistakes == {
        "gpus": 2,
        "defaults.generation.temprature": 3,
        "matrix.models[0].path": 5,
    }


def test_a_configs_generation_is_checked_by_the_adapter(tmp_path: Path) -> None:
    text = """\
    campaign: study
    defaults: {adapter: transformers}
    matrix:
      models: [{name: a, path: ./a}]
      configs:
        warm: {generation: {temprature: 1}}
      benchmarks: [recall: [128]]
    """
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.json").write_text("{}")
    (tmp_path / "a" / "model.safetensors").write_bytes(b"")
    keys = {one.key: one.line for one in mistakes_in(write(tmp_path, text))}
    assert keys["matrix.configs.warm.generation.temprature"] == 6


def test_cells_have_the_settings_of_their_config(tmp_path: Path) -> None:
    text = """\
    campaign: study
    defaults: {adapter: mock, generation: {max_new_tokens: 8, temperature: 0.1}}
    matrix:
      models: [{name: a, variants: [{name: b, model_kwargs: {answer: "7"}}]}]
      configs: {dense: null, warm: {generation: {temperature: 0.7}, model_kwargs: {answer: "9"}}}
      benchmarks: [mock_benchmark]
    """
    matrix = load_campaign(write(tmp_path, text)).matrix
    dense, warm = matrix.expand()
    assert dense.workload.generation["temperature"] == 0.1
    assert warm.workload.generation == {**dense.workload.generation, "temperature": 0.7}
    assert (dict(dense.model.kwargs), dict(warm.model.kwargs)) == ({}, {"answer": "9"})
    assert dense.config.identity() == warm.config.identity()
    _, (_, variant) = matrix.forms(warm)
    assert (variant.model.name, variant.model.kwargs["answer"]) == ("b", "9")
    assert variant.workload.generation["temperature"] == 0.7


def test_a_store_whose_package_is_missing_is_a_mistake_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "find_spec", lambda name: None)
    file = write(tmp_path, GOOD.replace("defaults:", "results: gs://lab/x\ndefaults:", 1))
    (mistake,) = mistakes_in(file)
    assert (mistake.key, mistake.line) == ("results", 2)
    assert mistake.message == "gs:// needs gcsfs; pip install gcsfs"
