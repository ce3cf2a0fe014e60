"""The parameters of lm-eval's tasks: their defaults, and what each may be."""

from __future__ import annotations

from typing import Any

from benchfleet.benchmarks.parameters import optional_text, whole_number

DEFAULTS: dict[str, Any] = {
    "include_path": None,
    "data": None,
    "context": None,
    "name": None,
    "num_fewshot": None,
    "metric": None,
    "metadata": None,
    "apply_chat_template": False,
    "fewshot_as_multiturn": True,
    "system_instruction": None,
    "add_bos_token": None,
    "max_length": None,
}
_KINDS: dict[str, tuple[type, str]] = {
    "include_path": (str, "a folder, such as ./tasks"),
    "data": (str, "a folder, such as ./data"),
    "tokenizer": (str, "a folder, such as ./tokenizer"),
    "context": (str, "the name of a column, such as passage"),
    "metric": (str, "the name of a metric, such as acc"),
    "metadata": (dict, "a mapping, such as {max_seq_lengths: [4096]}"),
    "apply_chat_template": (bool, "true or false"),
    "fewshot_as_multiturn": (bool, "true or false"),
    "system_instruction": (str, "a text"),
    "add_bos_token": (bool, "true or false"),
}
_LEAST = {"num_fewshot": 0, "max_length": 1}


def check_parameter(name: str, value: Any, default: Any) -> None:
    """Raises ValueError if a parameter is not what it may be."""
    kind, expected = _KINDS.get(name, (object, ""))
    if value != default and not isinstance(value, kind):
        raise ValueError(f"{name} must be {expected}, not {value!r}")
    if name == "name":
        optional_text(name, value)
    if name in _LEAST and value is not None:
        whole_number(name, value, least=_LEAST[name])
