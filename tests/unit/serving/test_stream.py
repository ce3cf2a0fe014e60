"""Streams as servers send them, cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchfleet.serving.stream import read_stream, split_lines


def chunk(text: str = "", **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None, **more}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}\n\n'
DONE = b"data: [DONE]\n\n"
ROLE = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_stream_says_the_same_however_it_is_cut(size: int) -> None:
    whole = ROLE + chunk(" one") + chunk(" zwei") + chunk(finish_reason="stop") + USAGE + DONE
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    content = read_stream(pieces, ndjson=False)
    assert (content.text, content.finish, content.error) == (" one zwei", "stop", "")
    assert (content.tokens, content.prompt_tokens) == (5, 7)
    assert sum(content.lines) == 2


def test_an_empty_role_chunk_is_no_content() -> None:
    content = read_stream([ROLE, chunk("a"), DONE], ndjson=False)
    assert content.pieces == [1]


def test_reasoning_is_content() -> None:
    reasoning = b'data: {"choices": [{"delta": {"reasoning_content": "hm"}}]}\n'
    content = read_stream([ROLE, reasoning, chunk("a"), DONE], ndjson=False)
    assert (content.text, content.pieces) == ("hma", [1, 2])


def test_lines_of_one_piece_share_its_time() -> None:
    content = read_stream([chunk("a") + chunk("b"), chunk("c"), DONE], ndjson=False)
    assert (content.pieces, content.lines) == ([0, 1], [2, 1])


def test_crlf_comments_and_a_missing_space_are_read() -> None:
    line = chunk("a").strip().replace(b"data: ", b"data:") + b"\r\n\r\n"
    content = read_stream([b": ping\r\n", b"event: x\r\n", line, b"data:[DONE]"], ndjson=False)
    assert (content.text, content.is_done, content.error) == ("a", True, "")


def test_a_finish_reason_and_a_clean_end_are_complete_without_done() -> None:
    last = {
        "choices": [{"delta": {}, "finish_reason": "length"}],
        "usage": {"completion_tokens": 60, "prompt_tokens": 3},
    }
    content = read_stream(
        [chunk("a"), b"data: " + json.dumps(last).encode() + b"\n\n"], ndjson=False
    )
    assert (content.error, content.finish, content.tokens) == ("", "length", 60)


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([chunk("a")], "incomplete"),
        ([], "incomplete"),
        ([chunk("a"), b'data: {"error": {"message": "no memory"}}\n\n'], "error_in_stream"),
        ([chunk("a"), b"data: {oops\n\n", DONE], "malformed"),
    ],
)
def test_a_stream_that_is_not_whole_is_a_failure(pieces: list[bytes], error: str) -> None:
    assert read_stream(pieces, ndjson=False).error == error


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (b"<html>\n gateway</html>", "incomplete", "is no stream of events: <html> gateway</html>"),
        (b'{"id": "x", "choices": []}', "incomplete", 'is no stream of events: {"id": "x"'),
        (b'data: {"id": "x", "choices": []}\n\n' + DONE, "incomplete", 'no answer: {"id": "x"'),
        (b"data: [1, 2]\n\n" + DONE, "malformed", "[1, 2]"),
        (b'data: {"choices": ["x"]}\n\n' + DONE, "malformed", '{"choices": ["x"]}'),
        (
            b'data: {"usage": {"completion_tokens": "x"}}\n\n',
            "malformed",
            '"completion_tokens": "x"',
        ),
    ],
)
def test_another_reply_than_a_stream_is_a_failure_with_its_beginning(
    body: bytes, error: str, message: str
) -> None:
    content = read_stream([body], ndjson=False)
    assert content.error == error
    assert message in content.message


def test_an_answer_without_a_word_is_whole_if_it_has_a_finish_reason() -> None:
    content = read_stream([ROLE, chunk(finish_reason="stop"), DONE], ndjson=False)
    assert (content.error, content.text) == ("", "")


def test_ollama_is_complete_with_done_alone() -> None:
    lines = [
        b'{"message": {"thinking": "so"}, "done": false}\n',
        b'{"message": {"content": "b"}, "done": false}\n',
    ]
    last = b'{"done": true, "done_reason": "stop", "eval_count": 9, "prompt_eval_count": 4}\n'
    whole = read_stream([*lines, last], ndjson=True)
    assert (whole.text, whole.tokens, whole.prompt_tokens, whole.error) == ("sob", 9, 4, "")
    assert read_stream(lines, ndjson=True).error == "incomplete"
    failed = read_stream([*lines, b'{"error": "out of memory"}\n'], ndjson=True)
    assert (failed.error, failed.message) == ("error_in_stream", "out of memory")


def test_a_line_belongs_to_the_piece_that_ends_it() -> None:
    assert list(split_lines([b"ab", b"c\nd", b"e\n", b"f"])) == [(1, b"abc"), (2, b"de"), (3, b"f")]
