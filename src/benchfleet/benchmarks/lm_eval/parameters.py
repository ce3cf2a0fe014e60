"""The parameters of lm-eval's tasks: their defaults, and what each may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchfleet.benchmarks.parameters import optional_text, whole_number, with_defaults

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


def checked(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults with these parameters over them. Raises ValueError for a wrong one."""
    values = with_defaults(params, defaults)
    for name, value in values.items():
        _check(name, value, defaults[name])
    return values


def _check(name: str, value: Any, default: Any) -> None:
    kind, expected = _KINDS.get(name, (object, ""))
    if value != default and not isinstance(value, kind):
        raise ValueError(f"{name} must be {expected}, not {value!r}")
    if name == "name":
        optional_text(name, value)
    if name in _LEAST and value is not None:
        whole_number(name, value, least=_LEAST[name])
