"""The answers of the simulated server: pure functions of the prompt, in both protocols."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from typing import Any


def prompt_of(body: dict[str, Any]) -> str:
    """The text that an answer depends on: the prompt, or all messages with their roles."""
    if "messages" in body:
        return "\n".join(f"{one['role']}: {one['content']}" for one in body["messages"])
    prompt = body["prompt"]
    return prompt if isinstance(prompt, str) else json.dumps(prompt)


def answer_tokens(prompt: str, count: int) -> list[str]:
    """The tokens of the answer to a prompt: a word each, such as `` a3f``."""
    words = (hashlib.sha256(f"{prompt}\0{n}".encode()).hexdigest()[:3] for n in range(count))
    return [f" {word}" for word in words]


def logprob(prefix: Sequence[int], token: int) -> float:
    """The log-probability of a token after others, of an echoed prompt of token ids."""
    digest = hashlib.sha256(json.dumps([list(prefix), token]).encode()).digest()
    return math.log((1 + digest[0]) / 257)


class SimulatedReply:
    """An answer as chunks, and as one object."""

    def __init__(
        self,
        path: str,
        body: dict[str, Any],
        *,
        tokens: int,
        per_chunk: int,
        text: str | None = None,  # the answer; None: that of the prompt
        adapted: str = "",  # the folder of a LoRA adapter; one called ``untrained`` changes nothing
    ) -> None:
        self.ollama, self.chat = path.startswith("/api/"), "chat" in path
        self._body = body
        options = body.get("options", {})
        limit = options.get("num_predict", body.get("max_tokens", tokens))
        prompt, count = prompt_of(body), limit if body.get("ignore_eos") else min(tokens, limit)
        if text is None:
            lora = "" if adapted.endswith("untrained") else adapted
            words = answer_tokens(f"{prompt}{lora}", count)
        else:  # its words, with the spaces before them
            whole = re.findall(r"\s*\S+|\s+$", text)
            words, tokens = whole[:limit], len(whole)
            count = len(words)
        text, stops = "".join(words), options.get("stop", body.get("stop")) or []
        positions = [text.find(s) for s in ([stops] if isinstance(stops, str) else stops)]
        self.finish = "length" if count < tokens or body.get("ignore_eos") else "stop"
        if cuts := [position for position in positions if position >= 0]:
            text, self.finish = text[: min(cuts)], "stop"
            words = [text[at : at + 4] for at in range(0, len(text), 4)]
        size = per_chunk
        self.chunks = ["".join(words[at : at + size]) for at in range(0, len(words), size)]
        self.text, self.prompt_tokens, self.tokens = text, len(prompt.split()), len(words)

    @property
    def usage(self) -> dict[str, int]:
        if self.ollama:
            return {"prompt_eval_count": self.prompt_tokens, "eval_count": self.tokens}
        total = self.prompt_tokens + self.tokens
        counts = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.tokens}
        return {**counts, "total_tokens": total}

    def whole(self) -> dict[str, Any]:
        if self.ollama:
            return {**self._part(self.text), "done": True, "done_reason": self.finish, **self.usage}
        text = {"message": {"role": "assistant", "content": self.text}}
        if not self.chat and self._body.get("echo") and self._body.get("logprobs"):
            prompts = self._body["prompt"]
            lists = prompts if isinstance(prompts[0], list) else [prompts]
            choices = [_echoed(index, ids) for index, ids in enumerate(lists)]
            return {"choices": choices, "usage": self.usage}
        choice = {"index": 0, "finish_reason": self.finish}
        choice |= text if self.chat else {"text": self.text}
        choice |= self._logprobs(self.text)
        return {"model": self._body["model"], "choices": [choice], "usage": self.usage}

    def _part(self, text: str) -> dict[str, Any]:
        if self.ollama:
            part = {"message": {"content": text}} if self.chat else {"response": text}
            return {"model": self._body["model"], **part, "done": False}
        delta = {"delta": {"content": text}} if self.chat else {"text": text}
        choice = {"index": 0, **delta, **self._logprobs(text), "finish_reason": None}
        return {"choices": [choice]}

    def _logprobs(self, text: str) -> dict[str, Any]:
        if not self._body.get("logprobs"):
            return {}
        token = {"token": text, "logprob": -0.5}
        return {"logprobs": {"content": [token]} if self.chat else {"token_logprobs": [-0.5]}}

    def line(self, text: str) -> bytes:
        return self._encode(self._part(text))

    def role_line(self) -> bytes:
        delta = {"delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        return self._encode({"choices": [{"index": 0, **delta}]})

    def last_lines(self) -> bytes:
        if self.ollama:
            done = {"done": True, "done_reason": self.finish, **self.usage}
            return self._encode({**self._part(""), **done})
        end: dict[str, Any] = {"delta": {}} if self.chat else {"text": ""}
        choice = {"index": 0, **end, "finish_reason": self.finish}
        lines = self._encode({"choices": [choice]})
        if self._body.get("stream_options", {}).get("include_usage"):
            lines += self._encode({"choices": [], "usage": self.usage})
        return lines + b"data: [DONE]\n\n"

    def error_line(self) -> bytes:
        error = "simulated" if self.ollama else {"message": "simulated", "type": "server_error"}
        return self._encode({"error": error})

    def _encode(self, value: Any) -> bytes:
        text = json.dumps(value).encode()
        return text + b"\n" if self.ollama else b"data: " + text + b"\n\n"


def _echoed(index: int, ids: Sequence[int]) -> dict[str, Any]:
    """The prompt's tokens with their log-probabilities, and one more token."""
    ids = [*ids, 0]
    values = [None, *(logprob(ids[:at], ids[at]) for at in range(1, len(ids)))]
    best = [None, *({str(ids[at]): values[at], "other": -0.1} for at in range(1, len(ids)))]
    logprobs = {"tokens": [str(one) for one in ids], "token_logprobs": values, "top_logprobs": best}
    return {"index": index, "text": "", "finish_reason": "length", "logprobs": logprobs}
