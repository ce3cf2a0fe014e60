"""Which model folders can hold no tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.models.tokenizer_files import missing_tokenizer


def folder_of(root: Path, *names: str, config: str = '{"model_type": "llama"}') -> Path:
    (root / "config.json").write_text(config)
    for name in ("model.safetensors", "generation_config.json", "README.md", *names):
        (root / name).write_text("{}")
    return root


@pytest.mark.parametrize("names", [(), ("tokenizer_config.json", "special_tokens_map.json")])
def test_a_folder_without_a_vocabulary_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    message = missing_tokenizer(folder_of(tmp_path, *names), {"padding_side": "left"})
    assert message is not None
    assert "save it there too" in message


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.json",
        "tokenizer.model",
        "vocab.txt",
        "qwen.tiktoken",
        "tekken.json",
        "tokenization_own.py",
        "anything.else",
    ],
)
def test_a_file_that_may_be_a_vocabulary_is_enough(tmp_path: Path, name: str) -> None:
    assert missing_tokenizer(folder_of(tmp_path, name), {}) is None


@pytest.mark.parametrize("name", ["subfolder", "tokenizer_file", "trust_remote_code"])
def test_a_tokenizer_may_lie_elsewhere(tmp_path: Path, name: str) -> None:
    assert missing_tokenizer(folder_of(tmp_path), {name: "x"}) is None


@pytest.mark.parametrize(
    "config", ['{"tokenizer_class": "ByT5Tokenizer"}', '{"model_type": "canine"}']
)
def test_a_tokenizer_of_characters_has_no_vocabulary(tmp_path: Path, config: str) -> None:
    assert missing_tokenizer(folder_of(tmp_path, config=config), {}) is None


def test_code_may_bring_a_tokenizer(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["a.B", null]}}')
    assert missing_tokenizer(folder, {}) is None


def test_a_folder_that_is_elsewhere_is_not_judged(tmp_path: Path) -> None:
    assert missing_tokenizer(tmp_path / "gone", {}) is None
