"""The bodies of requests: synthetic prompts by seed, or a file of prompts in a seeded order.

Prompts differ from request to request, or the server's prefix cache would save the prefill. The
seed makes them the same from run to run.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLACEHOLDER = "\x01prompt\x01"  # stands for the prompt in a template

# Short common words: most tokenizers have one token for each, with the space before it.
WORDS = """
time year people way day man thing woman life child world school state family student group
country problem hand part place case week company system program question work government number
night point home water room mother area money story fact month lot right study book eye job word
business issue side kind head house service friend father power hour game line end member law
car city name team minute idea body back parent face level office door health person art war
history party result change morning reason research girl moment air teacher force order food
summer winter spring river field road tree stone bird fish horse dog cat table chair window wall
floor light color sound music voice letter paper page picture film news price market bank train
ship plane street bridge island mountain valley forest garden farm village town church king
queen doctor nurse driver writer player leader
"""
_WORDS = WORDS.split()


def synthetic_text(seed: int, index: int, words: int) -> str:
    """The prompt of one request: so many words, drawn by seed and index alone."""
    draw = random.Random(f"prompt {seed} {index}")  # noqa: S311 - no secret
    return " ".join(draw.choices(_WORDS, k=words))


class Bodies(ABC):
    """Gives each request its body."""

    @abstractmethod
    def body(self, index: int) -> bytes:
        """The body of the request with that index."""

    @staticmethod
    def of(spec: Mapping[str, Any]) -> Bodies:
        """From what `synthetic` or `from_file` made."""
        return _FromFile(spec) if "file" in spec else _Synthetic(spec)


def synthetic(template: Mapping[str, Any], *, words: int, seed: int) -> dict[str, Any]:
    """The description of synthetic bodies: a request's JSON with `PLACEHOLDER` for the prompt."""
    head, placeholder, tail = json.dumps(dict(template)).partition(json.dumps(PLACEHOLDER)[1:-1])
    if not placeholder:
        raise ValueError("the template has no place for the prompt")
    return {"head": head, "tail": tail, "words": words, "seed": seed}


def from_file(file: Path, *, seed: int) -> dict[str, Any]:
    """The description of bodies in a file, a JSON a line, in an order of the seed's own."""
    return {"file": str(file), "seed": seed}


class _Synthetic(Bodies):
    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._head, self._tail = spec["head"].encode(), spec["tail"].encode()
        self._seed, self._words = int(spec["seed"]), int(spec["words"])

    def body(self, index: int) -> bytes:
        text = synthetic_text(self._seed, index, self._words)
        body: bytes = self._head + text.encode() + self._tail
        return body


class _FromFile(Bodies):
    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._bodies: list[bytes] = Path(spec["file"]).read_bytes().splitlines()
        random.Random(f"order {spec['seed']}").shuffle(self._bodies)  # noqa: S311 - no secret

    def body(self, index: int) -> bytes:
        body: bytes = self._bodies[index % len(self._bodies)]
        return body
