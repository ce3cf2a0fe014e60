"""The digests of model folders. They read and write real files, in a temporary folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchfleet.models.digest import cached_file_digest, model_digest, model_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"


def saved(folder: Path, **more: str) -> Path:
    """A model as `save_pretrained` leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"config.json": "{}", "model.safetensors": "weights", "tokenizer.json": "{}", **more}
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_the_same_content_has_the_same_digest_wherever_it_lies(
    tmp_path: Path, environ: Mapping[str, str]
) -> None:
    first = model_digest(str(saved(tmp_path / "a")), environ=environ)
    second = model_digest(str(saved(tmp_path / "b" / "c")), environ=environ)
    assert first == second
    assert len(first) == 64


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "generation_config.json",
        "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja",
        "modeling_own.py",
        "merges.txt",
        "tokenizer.model",
    ],
)
def test_every_file_that_makes_the_model_counts(
    tmp_path: Path, environ: Mapping[str, str], name: str
) -> None:
    folder = saved(tmp_path / "model")
    before = model_digest(str(folder), environ=environ)
    saved(folder, **{name: "other"})
    assert model_digest(str(folder), environ=environ) != before


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "LICENSE.txt",
        "USE_POLICY.md",
        ".gitattributes",
        ".cache/state.json",
        ".git/config.json",
        "requirements.txt",
        "training_args.bin",
        "trainer_state.json",
        "optimizer.pt",
        "rng_state_0.pth",
        "onnx/model.json",
        "figure.png",
    ],
)
def test_what_is_not_the_model_does_not_count(
    tmp_path: Path, environ: Mapping[str, str], name: str
) -> None:
    folder = saved(tmp_path / "model")
    before = model_digest(str(folder), environ=environ)
    saved(folder, **{name: "other"})
    assert model_digest(str(folder), environ=environ) == before


def test_a_renamed_file_is_another_model(tmp_path: Path, environ: Mapping[str, str]) -> None:
    folder = saved(tmp_path / "model", **{"vocab.json": "v"})
    before = model_digest(str(folder), environ=environ)
    (folder / "vocab.json").rename(folder / "vocabulary.json")
    assert model_digest(str(folder), environ=environ) != before


def test_a_file_is_read_once_while_size_time_and_inode_stay(tmp_path: Path) -> None:
    file, cache = tmp_path / "weights", tmp_path / "cache"
    file.write_bytes(b"first")
    os.utime(file, (1_000, 1_000))
    first = cached_file_digest(file, cache=cache)
    assert first == hashlib.sha256(b"first").hexdigest()
    file.write_bytes(b"other")
    os.utime(file, (1_000, 1_000))
    assert cached_file_digest(file, cache=cache) == first
    os.utime(file, (1_001, 1_001))
    assert cached_file_digest(file, cache=cache) == hashlib.sha256(b"other").hexdigest()


def test_a_file_that_was_just_written_is_not_remembered(tmp_path: Path) -> None:
    file, cache = tmp_path / "weights", tmp_path / "cache"
    file.write_bytes(b"first")
    written = file.stat().st_mtime
    cached_file_digest(file, cache=cache, now=lambda: written + 1)
    assert not cache.exists()
    cached_file_digest(file, cache=cache, now=lambda: written + 3)
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("damage", [b"", b"not a digest", b"\xff\xfe"])
def test_a_damaged_memory_is_computed_again(tmp_path: Path, damage: bytes) -> None:
    file, cache = tmp_path / "weights", tmp_path / "cache"
    file.write_bytes(b"text")
    os.utime(file, (1_000, 1_000))
    right = cached_file_digest(file, cache=cache)
    (kept,) = cache.iterdir()
    kept.write_bytes(damage)
    assert cached_file_digest(file, cache=cache) == right
    assert kept.read_text() == right


def test_a_cache_that_cannot_be_written_is_only_slower(tmp_path: Path) -> None:
    file, cache = tmp_path / "weights", tmp_path / "cache"
    file.write_bytes(b"text")
    os.utime(file, (1_000, 1_000))
    cache.write_text("a file where the folder should be")
    assert cached_file_digest(file, cache=cache) == hashlib.sha256(b"text").hexdigest()


def test_the_memory_lies_in_the_users_cache(tmp_path: Path, environ: Mapping[str, str]) -> None:
    folder = saved(tmp_path / "model")
    for file in folder.iterdir():
        os.utime(file, (1_000, 1_000))
    model_digest(str(folder), environ=environ)
    assert len(list((tmp_path / "cache" / "benchfleet" / "digests").iterdir())) == 3


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("nowhere", "nowhere is not there; name the folder that holds"),
        ("model.safetensors", r"model\.safetensors is a file; name the folder"),
        ("empty", r"holds no config\.json"),
    ],
)
def test_what_is_no_model_folder_says_what_to_name(tmp_path: Path, name: str, wrong: str) -> None:
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=wrong):
        model_digest(str(tmp_path / name))


@pytest.mark.parametrize("size", [0, 20, 70, 99])
def test_weights_that_are_cut_off_are_named(tmp_path: Path, size: int) -> None:
    folder = saved(tmp_path / "model")
    header = json.dumps({"w": {"dtype": "F32", "shape": [7], "data_offsets": [0, 28]}}).encode()
    whole = len(header).to_bytes(8, "little") + header + bytes(28)
    (folder / "model.safetensors").write_bytes(whole[: len(whole) * size // 100])
    with pytest.raises(ValueError, match=r"a file of weights that is cut off, model\.safetensors;"):
        model_digest(str(folder))
    (folder / "model.safetensors").write_bytes(whole)
    assert model_digest(str(folder))


def test_a_folder_without_weights_is_no_model(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "training_args.bin").touch()
    with pytest.raises(ValueError, match=r"holds no weights \(\*\.safetensors\)"):
        model_digest(str(folder))


def test_lacking_shards_are_counted(tmp_path: Path) -> None:
    shards = {"a": "one.safetensors", "b": "two.safetensors", "c": "one.safetensors"}
    index = json.dumps({"weight_map": shards})
    folder = saved(
        tmp_path / "model", **{"model.safetensors.index.json": index, "one.safetensors": "1"}
    )
    with pytest.raises(ValueError, match="holds 1 of its 2 files of weights"):
        model_digest(str(folder))
    saved(folder, **{"two.safetensors": "2"})
    assert model_folder(str(folder)) == folder


@pytest.mark.parametrize("index", ["", "[]", '{"weight_map": 4}', "{}"])
def test_an_index_that_cannot_be_read_is_named(tmp_path: Path, index: str) -> None:
    folder = saved(tmp_path / "model", **{"model.safetensors.index.json": index})
    with pytest.raises(ValueError, match=r"cannot be read, model\.safetensors\.index\.json"):
        model_digest(str(folder))


def snapshot(cache: Path, commit: str, **refs: str) -> Path:
    """A hub cache that holds org/name at `commit`, its files links as the hub makes them."""
    repository = cache / "models--org--name"
    blobs = saved(repository / "blobs")
    folder = repository / "snapshots" / commit
    folder.mkdir(parents=True)
    for blob in blobs.iterdir():
        (folder / blob.name).symlink_to(os.path.relpath(blob, folder))
    for name, at in refs.items():
        ref = repository / "refs" / name
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(at)
    return folder


@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
    ],
)
def test_a_hub_name_is_known_by_the_commit_of_its_snapshot(
    tmp_path: Path, variable: str, place: str
) -> None:
    folder = snapshot(tmp_path / place, COMMIT, main=COMMIT)
    environ = {variable: str(tmp_path)}
    assert model_digest("org/name", environ=environ) == COMMIT
    assert model_folder("org/name", environ=environ) == folder


def test_a_revision_pins_the_snapshot(tmp_path: Path) -> None:
    environ = {"HF_HUB_CACHE": str(tmp_path)}
    snapshot(tmp_path, COMMIT, main=COMMIT, **{"v1": OTHER, "refs_pr/7": OTHER})
    snapshot(tmp_path, OTHER)
    assert model_digest("org/name", environ=environ) == COMMIT
    assert model_digest("org/name@main", environ=environ) == COMMIT
    assert model_digest("org/name@v1", environ=environ) == OTHER
    assert model_digest("org/name@refs_pr/7", environ=environ) == OTHER
    assert model_digest(f"org/name@{OTHER}", environ=environ) == OTHER


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("org/other", "org/other is not in the Hugging Face cache .*: hf download org/other$"),
        ("other", "hf download other$"),
        ("org/name@v2", "hf download org/name --revision v2$"),
        ("org/name@a/../../x", "invalid revision .*; name a branch, a tag or a commit"),
        ("../name", r"\.\./name is not there"),
        ("", r"is no|holds no"),
        ("a b", "a b is not there"),
        ("org/name/more", "org/name/more is not there"),
    ],
)
def test_a_name_that_is_not_in_the_cache_says_how_to_bring_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, wrong: str
) -> None:
    snapshot(tmp_path / "hub", COMMIT, main=COMMIT)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(ValueError, match=wrong):
        model_digest(source, environ={"HF_HUB_CACHE": str(tmp_path / "hub")})


def test_a_folder_goes_before_a_hub_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str]
) -> None:
    saved(tmp_path / "org" / "name")
    monkeypatch.chdir(tmp_path)
    assert model_folder("org/name", environ=environ) == Path("org/name")
