"""Whether a model's folder can hold a tokenizer, by the names of its files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

# Files without a vocabulary. Any other file, such as vocab.txt or code, may be a tokenizer's.
_NO_VOCABULARY = re.compile(
    r"\..*|(readme|license|licence|notice|use_policy)\b.*|.*\.md|.*\.index\.json"
    r"|.*\.(safetensors|bin|pt|pth|h5|msgpack|onnx|jinja)"
    r"|(config|generation_config|tokenizer_config|special_tokens_map|added_tokens|trainer_state"
    r"|chat_template|preprocessor_config|processor_config|adapter_config)\.json",
    re.IGNORECASE,
)
_WITHOUT_VOCABULARY = frozenset({"ByT5", "Canine", "Perceiver"})  # their tokens are characters
_ELSEWHERE = frozenset({"subfolder", "trust_remote_code", "tokenizer_type"})


def missing_tokenizer(folder: Path, tokenizer_kwargs: Mapping[str, Any]) -> str | None:
    """What a folder lacks and what to do, or None where it may hold a tokenizer."""
    if any(name in _ELSEWHERE or name.endswith("_file") for name in tokenizer_kwargs):
        return None
    try:
        names = [path.name for path in folder.iterdir() if path.is_file()]
    except OSError:
        return None
    if not all(map(_NO_VOCABULARY.fullmatch, names)):
        return None
    declared = {**_content(folder / "config.json"), **_content(folder / "tokenizer_config.json")}
    kind = f"{declared.get('tokenizer_class')} {declared.get('model_type')}".lower()
    if "auto_map" in declared or any(name.lower() in kind for name in _WITHOUT_VOCABULARY):
        return None
    return (
        f"{folder} holds no tokenizer, such as tokenizer.json or tokenizer.model; save it there "
        "too, with save_pretrained of the model's tokenizer"
    )


def _content(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        if isinstance(content := json.loads(file.read_text("utf-8")), dict):
            return content
    return {}
