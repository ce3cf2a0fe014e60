"""Logs of Inspect: ``.json``, or ``.eval``, which is a zip of JSON files."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchfleet.domain.question_draws import draw_id

from .result import ForeignResult, UnreadableResult, sample

_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}  # how Inspect writes right, wrong, partly, none
_UNKNOWN = "unknown"  # how Inspect writes that a model's end has no known reason
_OWN_HEADLINE = "score"  # of logs that `benchfleet export` writes


def inspect_files(folder: Path) -> list[Path]:
    """The logs below a folder."""
    files = sorted({*folder.rglob("*.eval"), *folder.rglob("*.json")})
    return [file for file in files if file.suffix == ".eval" or _is_log(file)]


def read_inspect(file: Path) -> Iterator[ForeignResult]:
    """The one result of a log. A log that failed, or that lacks samples, is none."""
    try:
        log, samples = _zipped(file) if file.suffix == ".eval" else _plain(file)
        about = log["eval"]
        task, model = str(about["task"]), str(about["model"])
    except NotImplementedError as error:
        raise UnreadableResult(
            f"{file} has a compression that is not installed: pip install 'benchfleet[inspect]'"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as e:
        raise UnreadableResult(f"{file} is no log of Inspect: {e!r}") from e
    if log.get("status") != "success":
        raise UnreadableResult(f"{file} ended as {log.get('status')!r}; run it again")
    if failed := sum(bool(one.get("error")) for one in samples):
        raise UnreadableResult(f"{failed} of {len(samples)} samples of {file} failed")
    answers, questions = _epochs(file, samples), len({str(one.get("id")) for one in samples})
    _check_whole(file, log, len(samples), questions)
    metrics, scorers = _metrics((log.get("results") or {}).get("scores") or [])
    dataset = about.get("dataset") or {}
    total = dataset.get("samples")
    limited = (about.get("config") or {}).get("limit") is not None
    stats = log.get("stats") or {}
    per_sample = {name: _values(samples, scorers[name]) for name in metrics}
    own = "benchfleet" in (about.get("packages") or {})  # `benchfleet export` wrote it
    headline = _OWN_HEADLINE if own and _OWN_HEADLINE in metrics else None
    if headline:
        per_sample["overall_score"] = per_sample.pop(headline)
    yield ForeignResult(
        file=file,
        harness=f"inspect_ai {(about.get('packages') or {}).get('inspect_ai', '')}".strip(),
        model=model.partition("/")[2] or model,
        benchmark=task.rpartition("/")[2],
        config=str((about.get("metadata") or {}).get("config", "")) if own else "",
        overall=metrics.pop(headline) if headline else None,
        metrics=metrics,
        samples=[_record(index, one, answers) for index, one in enumerate(samples)],
        per_sample=per_sample,
        answered=questions,
        limit=questions if limited and questions != total else None,
        samples_per_question=answers,
        settings={
            "task": task,
            "model": model,
            "task_args": about.get("task_args"),
            "started_at": stats.get("started_at"),
        },
    )


def _check_whole(file: Path, log: Mapping[str, Any], samples: int, questions: int) -> None:
    """Raises UnreadableResult for a log that lacks samples, or has others than the first ones."""
    config = log["eval"].get("config") or {}
    if config.get("log_samples") is False:
        return
    total = (log["eval"].get("dataset") or {}).get("samples")
    limit, chosen = config.get("limit"), config.get("sample_id")
    planned = (log.get("results") or {}).get("total_samples")
    if planned is None and total is not None and limit is None and chosen is None:
        planned = total * (config.get("epochs") or 1)
    if planned is not None and samples < planned:
        raise UnreadableResult(f"{file} is not whole: it has {samples} of {planned} samples")
    from_later_on = isinstance(limit, Sequence) and limit[0] != 0
    if questions != total and (chosen is not None or from_later_on):
        name = "limit" if chosen is None else "sample_id"
        raise UnreadableResult(f"{file} has chosen samples ({name}); a cell has the first, or all")


def _epochs(file: Path, samples: list[dict[str, Any]]) -> int:
    """How often each sample was answered; sorts answers to one beside each other. Raises
    UnreadableResult where some were answered more often than others."""
    order = {id: n for n, id in enumerate(dict.fromkeys(str(one.get("id")) for one in samples))}
    samples.sort(key=lambda one: (order[str(one.get("id"))], int(one.get("epoch", 1))))
    counts = {*Counter(str(one.get("id")) for one in samples).values()}
    if len(counts) > 1:
        raise UnreadableResult(f"{file} has samples that lack some of its {max(counts)} epochs")
    return max(counts, default=1)


def _record(index: int, one: Mapping[str, Any], answers: int) -> dict[str, Any]:
    question, draw = str(one.get("id")), index % answers
    output = one.get("output") or {}
    record = sample(
        index,
        draw_id(question, draw),
        _text(one.get("input")),
        _text(one.get("target")),
        _completion(output),
    )
    if (reason := _stop_reason(output)) != _UNKNOWN:
        record["finish"] = reason
    return {**record, "question": question, "draw": draw} if answers > 1 else record


def _is_log(file: Path) -> bool:
    try:
        with file.open(encoding="utf-8") as stream:
            return '"eval"' in stream.read(2_000)
    except (OSError, UnicodeDecodeError):
        return False


def _plain(file: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    log = json.loads(file.read_text("utf-8"))
    return log, list(log.get("samples") or [])


def _zipped(file: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with contextlib.suppress(ImportError):  # Inspect's logs are compressed by Zstandard
        import zipfile_zstd  # noqa: F401 - it comes with Inspect, and teaches zipfile to read them
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        log = json.loads(archive.read("header.json"))
        parts = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
        samples = [json.loads(archive.read(name)) for name in parts]
    samples.sort(key=lambda one: _order(one.get("id")))
    return log, samples


def _order(identity: Any) -> tuple[int, int, str]:
    is_number = isinstance(identity, int)
    return (0, identity, "") if is_number else (1, 0, str(identity))


def _metrics(scores: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], dict[str, str]]:
    metrics, scorers = {}, {}
    for score in scores:
        for name, metric in (score.get("metrics") or {}).items():
            value = metric.get("value")
            if isinstance(value, (int, float)) and name not in ("stderr", "std", "var"):
                key = name if name not in metrics else f"{score.get('name')} {name}"
                metrics[key], scorers[key] = float(value), str(score.get("name"))
    return metrics, scorers


def _values(samples: Sequence[Mapping[str, Any]], scorer: str) -> list[float]:
    values = [((one.get("scores") or {}).get(scorer) or {}).get("value") for one in samples]
    scores = [_LETTERS.get(value, value) if isinstance(value, str) else value for value in values]
    numbers = [float(score) for score in scores if isinstance(score, (int, float))]
    return numbers if len(numbers) == len(values) else []


def _completion(output: Mapping[str, Any]) -> str:
    """The answer. Only some versions write it apart from the choices."""
    if "completion" in output:
        return _text(output["completion"])
    choices = output.get("choices") or [{}]
    content = (choices[0].get("message") or {}).get("content")
    if isinstance(content, list):  # parts of text, reasoning and media
        content = "".join(str(part.get("text", "")) for part in content)
    return _text(content)


def _stop_reason(output: Mapping[str, Any]) -> str:
    choices = output.get("choices") or [{}]
    return str(choices[0].get("stop_reason") or _UNKNOWN)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
