"""Output folders of lm-eval: ``results_<date>.json`` beside ``samples_<task>_<date>.jsonl``."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.lm_eval.answers import document_id
from benchfleet.benchmarks.lm_eval.plain_values import columns_of, plain
from benchfleet.benchmarks.lm_eval.score import facts_of_metrics, parsed_texts
from benchfleet.domain.averages import mean
from benchfleet.domain.lm_eval_layout import (
    DOCUMENTS,
    LIKELIHOODS,
    OWN_ANSWER,
    OWN_ID,
    TASK_METRICS,
)

from .result import ForeignResult, UnreadableResult, sample

_ROUNDING = 1e-3  # of what a file says, relative and absolute

_RUN_SETTINGS = (  # of a whole run; `gen_kwargs` is what it set over its tasks' own
    "gen_kwargs",
    "limit",
    "random_seed",
    "numpy_seed",
    "torch_seed",
    "fewshot_seed",
)
_PROMPT_SETTINGS = (
    "chat_template_sha",
    "system_instruction",
    "system_instruction_sha",
    "fewshot_as_multiturn",
)


def lm_eval_files(folder: Path) -> list[Path]:
    """The results below a folder, the newest of the same date order last."""
    return sorted(folder.rglob("results_*.json"))


def read_lm_eval(file: Path) -> Iterator[ForeignResult | UnreadableResult]:
    """A result for each task; groups are left out, since their tasks are there."""
    try:
        content = json.loads(file.read_text("utf-8"))
        results, settings = content["results"], content["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreadableResult(f"{file} is no result of lm-eval: {error!r}") from error
    date = file.stem.removeprefix("results_")
    groups = content.get("group_subtasks") or {}
    for task, values in results.items():
        if groups.get(task):
            continue
        counts = (content.get("n-samples") or {}).get(task) or {}
        answered, total = counts.get("effective"), counts.get("original")
        try:
            lines = _sample_lines(file.with_name(f"samples_{task}_{date}.jsonl"), answered)
            samples = _samples(lines)
        except UnreadableResult as error:
            yield error
            continue
        config = (content.get("configs") or {}).get(task) or {}
        metrics = {k: float(v) for k, v in values.items() if _is_metric(k, v)}
        per_sample = {key: _values(lines, key) for key in metrics}
        whole = {key: some for key, some in per_sample.items() if len(some) == len(samples)}
        if wrong := _contradiction(metrics, whole, config):
            yield UnreadableResult(f"{file} contradicts its samples of {task}: {wrong}")
            continue
        if answered is not None:  # lm-eval counts no document without a metric
            answered = max(answered, len(samples))
        filtered = [{"filter": "none", **line} for line in lines if "filtered_resps" in line]
        better = (content.get("higher_is_better") or {}).get(task) or {}
        errors = {k: e for k in metrics if (e := _error(values, k)) is not None}
        own = content.get("benchfleet") or {}  # `benchfleet export` wrote it
        reported = {
            "lm_eval": content.get("lm_eval_version"),
            "task_version": (content.get("versions") or {}).get(task),
            "num_fewshot": (content.get("n-shot") or {}).get(task),
            DOCUMENTS: counts,
        }
        yield ForeignResult(
            file=file,
            harness=f"lm-eval {content.get('lm_eval_version', '')}".strip(),
            model=_model_name(content, settings),
            benchmark=task,
            headline=own.get("metric"),
            metrics=metrics,
            errors=errors,
            higher_is_better=better,
            samples=samples,
            per_sample=per_sample,
            parsed={key: parsed_texts(filtered, key, config) for key in metrics},
            answered=answered,
            limit=None if answered == total else answered,
            summary={
                TASK_METRICS: facts_of_metrics(metrics, better, errors),
                **{name: value for name, value in reported.items() if value not in (None, "", {})},
            },
            settings={
                "model_args": str(settings.get("model_args")),
                "batch_size": settings.get("batch_size"),
                "task_version": reported["task_version"],
                "num_fewshot": reported["num_fewshot"],
                "generation_kwargs": plain(config.get("generation_kwargs")),
                "chat_template": bool(content.get("chat_template")),
                "date": date,
                **{name: plain(settings.get(name)) for name in _RUN_SETTINGS},
                **{name: content.get(name) for name in _PROMPT_SETTINGS},
            },
        )


def _model_name(content: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    arguments = settings.get("model_args") or {}
    if isinstance(arguments, str):
        arguments = dict(part.partition("=")[::2] for part in arguments.split(","))
    named = arguments.get("pretrained") or arguments.get("model")
    return str(named or content.get("model_name") or settings.get("model") or "")


def _is_metric(key: str, value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and "," in key and "_stderr," not in key


def _error(values: Mapping[str, Any], key: str) -> float | None:
    """The standard error of a metric, where there is one."""
    name, _, chosen = key.partition(",")
    error = values.get(f"{name}_stderr,{chosen}")
    return float(error) if isinstance(error, (int, float)) and math.isfinite(error) else None


def _contradiction(
    metrics: Mapping[str, float],
    per_sample: Mapping[str, Sequence[float]],
    config: Mapping[str, Any],
) -> str:
    """Which metric is not the mean of its samples' values, as the task's settings say."""
    entries = [one for one in config.get("metric_list") or () if isinstance(one, Mapping)]
    for key, values in per_sample.items():
        name, value = key.partition(",")[0], metrics[key]
        kinds = {str(one.get("aggregation")) for one in entries if one.get("metric") == name}
        if kinds == {"mean"} and values and math.isfinite(value):
            expected = mean(values)
            if not math.isclose(expected, value, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
                return f"{key} is {value:.3g}, and the mean of {len(values)} is {expected:.3g}"
    return ""


def _sample_lines(file: Path, answered: int | None) -> list[dict[str, Any]]:
    """The samples of a task, which are of `answered` documents or more by each filter."""
    try:
        text = file.read_text("utf-8")
        lines = [json.loads(line) for line in text.split("\n") if line.strip()]
        numbers = {(int(line["doc_id"]), str(line.get("filter"))) for line in lines}
    except FileNotFoundError:
        return []  # lm-eval writes them only with --log_samples
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableResult(f"{file} is not whole: {error}") from error
    by_filter = Counter(chosen for _, chosen in numbers)
    expected = max(answered or 0, len({number for number, _ in numbers}))
    if (fewest := min(by_filter.values(), default=0)) < expected:
        raise UnreadableResult(f"{file} is not whole: it has {fewest} of {expected} samples")
    return sorted(lines, key=lambda line: int(line["doc_id"]))


def _samples(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    documents = {int(line["doc_id"]): line for line in reversed(lines)}  # one line for each filter
    return [
        _record(index, number, line)
        for index, (number, line) in enumerate(sorted(documents.items()))
    ]


def _record(index: int, number: int, line: Mapping[str, Any]) -> dict[str, Any]:
    """A sample with the id and the columns that it has in a run of benchfleet's own."""
    requests, target = _requests(line), str(line.get("target", ""))
    likelihoods = _likelihoods(line, requests)
    if OWN_ANSWER in line:
        predicted = str(line[OWN_ANSWER])
    elif likelihoods:
        choices = _choices(requests)
        predicted = _likeliest(choices, likelihoods, line)
        if len(choices) > 1 and target.isdecimal() and int(target) < len(choices):
            target = choices[int(target)]
    else:
        predicted = _answer(line)
    question = str(requests[0][0]) if requests else ""
    doc = line.get("doc")
    if not isinstance(doc, Mapping):  # of a version that wrote none
        return sample(index, number, question, target, predicted)
    columns = {**columns_of(doc), "target": target}
    if likelihoods:
        columns[LIKELIHOODS] = plain(likelihoods)
    own = sample(index, line.get(OWN_ID) or document_id(number, doc), question, target, predicted)
    end = {"finish": "stop"} if likelihoods else {}  # lm-eval does not say how a text ended
    return {**own, **end, "columns": columns}


def _requests(line: Mapping[str, Any]) -> list[list[Any]]:
    """The arguments of each request: a prompt, and a continuation or settings."""
    arguments = line.get("arguments") or []
    if isinstance(arguments, Mapping):  # gen_args_0: {arg_0: the prompt, …}
        arguments = [list(one.values()) for one in arguments.values()]
    return [list(one) for one in arguments]


def _likelihoods(line: Mapping[str, Any], requests: Sequence[Sequence[Any]]) -> list[float]:
    """The log-likelihood of each continuation; empty where the model wrote the answer."""
    has_continuations = requests and all(
        len(one) == 2 and isinstance(one[1], str) for one in requests
    )
    if not has_continuations and OWN_ANSWER not in line:
        return []
    try:
        firsts = [answers[0] for answers in line["resps"]]
        return [float(one if isinstance(one, str) else one[0]) for one in firsts]
    except (KeyError, IndexError, TypeError, ValueError):
        return []


def _choices(requests: Sequence[Sequence[Any]]) -> list[str]:
    """What a document's requests differ by. Requests without a prompt only serve to normalise."""
    prompted = [one for one in requests if one[0]] or list(requests)
    inputs = len(prompted) > 1 and len({one[1] for one in prompted}) == 1
    return [str(one[0] if inputs else one[1]).strip() for one in prompted]


def _likeliest(
    choices: Sequence[str], likelihoods: Sequence[float], line: Mapping[str, Any]
) -> str:
    """The likeliest of several choices; a single text where the model would have said it."""
    if len(choices) > 1:
        return choices[max(range(len(choices)), key=likelihoods.__getitem__)]
    greedy = line["resps"][0][0][1]  # lm-eval writes "True"
    return choices[0] if str(greedy) == "True" else ""


def _answer(line: Mapping[str, Any]) -> str:
    answer: Any = line.get("resps") or ""
    while isinstance(answer, (list, tuple)) and len(answer) == 1:
        answer = answer[0]
    return answer if isinstance(answer, str) else json.dumps(answer)


def _values(lines: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    name, _, chosen = key.partition(",")
    values = [line.get(name) for line in lines if line.get("filter", "none") == chosen]
    numbers = [float(v) for v in values if isinstance(v, (int, float)) and math.isfinite(v)]
    return numbers if len(numbers) == len(values) else []
