"""Outputs of models that think, each with the answer that is to be scored."""

from __future__ import annotations

from typing import NamedTuple


class Output(NamedTuple):
    name: str
    text: str  # as the model gives it
    answer: str
    reasoning: str
    ended: str
    opened: bool = False  # by the chat template


OUTPUTS = (
    Output("plain", "7", "7", "", "stop"),
    Output("tags", "<think>so 6 or 7</think>\n\n7", "7", "so 6 or 7", "stop"),
    Output("nested", "<think>a <think>b</think> c</think>7", "7", "a <think>b</think> c", "stop"),
    Output("words before", "Well. <think>hm</think> 7", "7", "hm", "stop"),
    Output("empty reasoning", "<think></think>7", "7", "", "stop"),
    Output("empty answer", "<think>hm</think>\n", "", "hm", "empty"),
    Output("empty", "", "", "", "empty"),
    Output("unclosed", "<think>hm, 7", "", "hm, 7", "length"),
    Output("opened again", "<think>a</think>7<think>b", "", "a</think>7<think>b", "length"),
    Output("template-opened", "so 6</think>\n7", "7", "so 6", "stop", opened=True),
    Output("template-opened, unclosed", "so 6 or 7", "", "so 6 or 7", "length", opened=True),
    Output("template-opened, closed before", "</think>7", "7", "", "stop", opened=True),
)
