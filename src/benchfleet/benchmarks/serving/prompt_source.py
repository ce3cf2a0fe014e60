"""The prompts of a load test: synthetic ones of a length, a file's, or another benchmark's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import SampleBenchmark, benchmark_class
from benchfleet.errors import CellFailure
from benchfleet.models.base import LoadTarget, Prompt
from benchfleet.serving.load_run import LoadRun
from benchfleet.serving.prompts import PLACEHOLDER, from_file, synthetic, synthetic_text
from benchfleet.serving.request import Request

MAX_PROMPTS = 10_000  # of a file or a benchmark; after the last one the first follows
_PROBE_WORDS = (16, 64)  # of the prompts by which tokens for each word are counted
_TOKENS_PER_WORD = 4 / 3  # of a limit, where a file tells only the words of an answer


@dataclass(frozen=True, kw_only=True)
class Source:
    """What the client needs to make bodies, and what was found out for that."""

    bodies: Mapping[str, Any]
    requested_tokens: int | None  # of each answer; None: of some it is another number
    facts: Mapping[str, Any]  # for the result


def synthetic_source(
    target: LoadTarget, generation: Mapping[str, Any], *, input_tokens: int, seed: int
) -> Source:
    """Prompts of about so many tokens by the server's own count, which two probes calibrate."""
    template = target.body(Prompt(question=PLACEHOLDER), generation)
    counts: list[int] = []
    for words in _PROBE_WORDS:
        body = target.body(
            Prompt(question=synthetic_text(-1, words, words)), {**generation, "max_new_tokens": 1}
        )
        counts.append(probe(target, body).prompt_tokens or 0)
    words = input_tokens
    facts: dict[str, Any] = {"prompt_words": input_tokens}
    if counts[1] > counts[0] > 0:
        per_word = (counts[1] - counts[0]) / (_PROBE_WORDS[1] - _PROBE_WORDS[0])
        fixed = counts[0] - per_word * _PROBE_WORDS[0]
        words = max(1, round((input_tokens - fixed) / per_word))
        facts = {"prompt_words": words, "tokens_per_word": round(per_word, 3)}
    return Source(
        bodies=synthetic(template, words=words, seed=seed),
        requested_tokens=int(generation["max_new_tokens"]),
        facts={"prompts": "synthetic", **facts},
    )


def file_source(
    target: LoadTarget,
    generation: Mapping[str, Any],
    prompts: Iterator[tuple[Prompt, int | None]],
    *,
    folder: Path,
    seed: int,
    kind: str,
) -> Source:
    """The prompts of a file or a benchmark, each with its own limit of the answer if it has one."""
    lines: list[str] = []
    limits: set[int | None] = set()
    for prompt, limit in prompts:
        limits.add(limit)
        settings = generation if limit is None else {**generation, "max_new_tokens": limit}
        lines.append(json.dumps(target.body(prompt, settings)))
        if len(lines) == MAX_PROMPTS:
            break
    if not lines:
        raise CellFailure(stage="setup", kind="user_error", message=f"{kind} has no prompt")
    file = folder / "bodies.jsonl"
    file.write_text("\n".join(lines), "utf-8")
    return Source(
        bodies=from_file(file, seed=seed),
        requested_tokens=int(generation["max_new_tokens"]) if limits == {None} else None,
        facts={"prompts": kind, "different_prompts": len(lines)},
    )


def sharegpt_prompts(file: Path) -> Iterator[tuple[Prompt, int | None]]:
    """The first question of each conversation. The answer's length limits the server's answer."""
    for one in json.loads(file.read_text("utf-8")):
        turns = one.get("conversations") or one.get("conversation") or ()
        texts = [str(turn.get("value") or turn.get("content") or "") for turn in turns]
        if len(texts) >= 2 and texts[0].strip() and texts[1].strip():
            limit = max(4, round(len(texts[1].split()) * _TOKENS_PER_WORD))
            yield Prompt(question=texts[0]), limit


def read_sharegpt(file: Path) -> None:
    """Raises ValueError if the file is not in ShareGPT's form."""
    try:
        value = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"file: {file}: {error.strerror}") from None
    except ValueError:
        value = None
    right = isinstance(value, list) and all(isinstance(one, dict) for one in value)
    if not right or next(sharegpt_prompts(file), None) is None:
        raise ValueError(
            f"file: {file} is not in ShareGPT's form: a JSON list of "
            '{"conversations": [{"from": "human", "value": …}, {"from": "gpt", "value": …}]}'
        )


def benchmark_prompts(
    settings: Mapping[str, Any], seed: int
) -> Iterator[tuple[Prompt, int | None]]:
    """The prompts of another benchmark. Raises ValueError if it cannot give any."""
    others = {k: v for k, v in settings.items() if k not in ("benchmark", "subset")}
    name, subset = str(settings["benchmark"]), settings.get("subset")
    benchmark = benchmark_class(name)(others)
    if not isinstance(benchmark, SampleBenchmark):
        raise ValueError(f"prompts: {name} does not tell its prompts; use another benchmark")
    subset = None if subset is None else str(subset)
    if subset is not None and (problem := benchmark.check_subset(subset)):
        raise ValueError(f"prompts: {problem}")
    if benchmark.files(subset):
        raise ValueError(f"prompts: {name} reads files; use one that reads none")
    return ((sample.prompt, None) for sample in benchmark.samples(subset, seed))


def probe(target: LoadTarget, body: Mapping[str, Any]) -> Request:
    """One request, alone. Its error is in it."""
    bodies = {"head": json.dumps(body), "tail": "", "words": 0, "seed": 0}
    spec = {**client_spec(target), "bodies": bodies, "concurrency": 1, "requests": 1}
    with LoadRun(spec, ndjson=target.ndjson) as run:
        while True:
            for request in run.requests():
                return request
            time.sleep(0.02)


def client_spec(target: LoadTarget) -> dict[str, Any]:
    """What a client needs to reach the server."""
    return {
        "url": target.url,
        "key": target.key,
        "timeout_s": target.timeout_s,
        "is_local": target.is_local,
    }
