"""Failures grouped by stage, kind and message, each with what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.errors import PluginError
from benchfleet.results.layout import Layout

WAYS_OUT: Mapping[str, str] = {
    "oom": "Set a smaller batch_size, run fewer cells at once on the device, or give it a larger "
    "one; where the message names limits.ram, raise that.",
    "timeout": "Raise the limit that the message names where the work is rightly that long; else "
    "the end of the log shows what it waited for.",
    "stuck": "The end of the log shows what it stood at; a model or a server that it waits for "
    "may have stopped. Where it is rightly that slow, set limits.stuck.",
    "slot_lost": "The process ended without a word: the end of its log, or the system's own log "
    "where it was killed for memory, says why. Fewer --max-concurrent-runs leave more memory.",
    "crash": "A library crashed the process: failure.json has its stack; another version "
    "of it, or another machine, may do.",
    "killed": "A signal from outside ended the process: the system's own log may say who sent it.",
    "connection": "A server that it needs refused the connection or answered HTTP 5xx: start or "
    "repair it, then `benchfleet retry`.",
    "rate_limited": "The server answers fewer requests than were sent: set a smaller "
    "requests_at_once, or wait for the time that the message names; then `benchfleet retry`.",
    "server_unavailable": "The model's server is away or overloaded: start or repair it, then "
    "`benchfleet retry`.",
    "server_died": "A server that benchfleet started ended or stopped answering: the message has "
    "the end of its log; correct its 'server: args', or give it more memory.",
    "wrong_key": "Set the variable or the file that the model's 'key' names to a valid key.",
    "bad_request": "The server refuses the request, or its reply has another form: correct what "
    "the message names.",
    "try_again": "The script ended with exit code 75 (try again) each time: its log says what it "
    "waits for.",
    "host_lost": "Bring the host back or go on without it: its cells are run again elsewhere and "
    "lose no try.",
    "no_capacity": "No machine could be rented: raise max_price, allow other providers or GPUs, or "
    "wait; then `benchfleet retry`.",
    "instance_stopped": "The provider ended its rented machines: allow another provider or region; "
    "then `benchfleet retry`.",
    "ssh_failed": "Nobody could log in to the rented machines: see that the image has an SSH "
    "server; then `benchfleet retry`.",
    "lora_not_applied": "The LoRA adapter changed no logits: check that it was trained for this "
    "base; then `benchfleet retry`.",
    "wrong_hardware": "The rented machines had other GPUs than offered: allow another provider or "
    "region; then `benchfleet retry`.",
    "no_driver": "nvidia-smi does not work in the image of the rented machines: choose another "
    "'image'; then `benchfleet retry`.",
    "unhealthy": "The rented machines could not be prepared, as the message says: choose another "
    "'image', or allow 'dead_man: none'; then `benchfleet retry`.",
    "gpu_fault": "Look at the GPU with nvidia-smi, and leave it out with --gpus until it is well.",
    "model_not_found": "Correct the model's path or name in the campaign file, or bring the model "
    "there.",
    "dataset_missing": "Bring the dataset to where the message looked for it, or correct its name "
    "in the campaign file.",
    "missing_extra": "Install what is lacking with the pip line that the message names.",
    "bad_result": "The answers are kept but their score cannot be used: fix the benchmark's "
    "scoring, or move what lies in the result's place.",
    "user_error": "Correct what the message names, in the campaign file or in the model's files.",
    "disk_full": "Free space where the results lie, or name another folder with --results.",
    "interrupted": "Run the same command again: it goes on after the last answer that was kept.",
    "error": "The end of log.txt in the attempt's folder says what went wrong; failure.json there "
    "has the stack trace.",
}
_SCORING = (
    "Every answer is kept: fix the benchmark's scoring, and the answers are scored again without "
    "asking the model."
)
_CHANGED = (
    "A changed script or function is a new cell, which `run` takes; with an 'identity' in the "
    "campaign file it is the same cell, which `retry` puts back."
)
_REPORTED = (
    "It ended well, and what it reported is not a result: fix what it writes, or what the campaign "
    "file asks of it, such as its 'metric', or move what lies in the result's place. " + _CHANGED
)
_OWN_CODE = "Correct your script or function. " + _CHANGED
_IN_OWN_CODE = frozenset({"error", "bad_result", "user_error"})  # that a change of it can fix
_QUOTA_SPENT = (
    "The quota of the account is spent, so no retry helps: pay for more or raise its limit at the "
    "provider, or name another 'key'; then `benchfleet retry`."
)
_NO_REASON = "no reason was recorded"
_PARTICULAR = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?|(?<![\w<])/[^\s:'\",)]+", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """The cells that failed at one stage for one kind of reason, whose messages differ in numbers
    and paths alone."""

    stage: str
    kind: str
    message: str  # of the first of them; not cleaned of what a model may have put there
    way_out: str
    cells: tuple[str, ...]  # ids, in the campaign's order
    folder: str  # what the first one left, relative to the campaign's folder
    scoring: bool  # all was answered, so that it is enough to score again


def grouped_failures(
    records: Iterable[CellRecord], cells: Iterable[Cell] = ()
) -> tuple[FailureGroup, ...]:
    """The cells that ended without a whole result, the largest group first. `cells` say which of
    them run the user's own files."""
    failed = [record for record in records if record.state in {"failed", "partial"}]
    fingerprints = {record.fingerprint for record in failed}
    own = {c.fingerprint for c in cells if c.fingerprint in fingerprints and _runs_own_code(c)}
    groups: dict[tuple[str, str, str, bool, bool], list[CellRecord]] = {}
    for record in failed:
        failure = _failure(record)
        stage, kind = (failure.stage, failure.kind) if failure else ("unknown", "error")
        pattern = failure_pattern(failure.message) if failure else ""
        in_own = failure is not None and kind in _IN_OWN_CODE and record.fingerprint in own
        scoring = not in_own and in_scoring(record.state, stage, kind)
        groups.setdefault((stage, kind, pattern, scoring, in_own), []).append(record)
    return tuple(
        _group(stage, kind, members, scoring=scoring, own_code=own_code)
        for (stage, kind, _, scoring, own_code), members in sorted(
            groups.items(), key=lambda group: -len(group[1])
        )
    )


def way_out(stage: str, kind: str, *, scoring: bool, own_code: bool = False) -> str:
    """What to do about a failure; `scoring` says that its answers can be scored again, `own_code`
    that it is in the user's own files."""
    if (stage, kind) == ("collect", "error") and scoring:
        return _SCORING
    if kind == "bad_result" and not scoring:
        return _REPORTED
    return _OWN_CODE if own_code else WAYS_OUT.get(kind, WAYS_OUT["error"])


def in_scoring(state: str, stage: str, kind: str) -> bool:
    """Whether there are answers whose scoring failed; a script that answers no samples has none."""
    return state == "partial" and stage == "collect" and kind in {"error", "bad_result"}


def failure_pattern(message: str) -> str:
    """The first line of a message without its numbers and paths: failures of one cause share it."""
    return _PARTICULAR.sub("#", message.partition("\n")[0])


def _group(
    stage: str, kind: str, members: Sequence[CellRecord], *, scoring: bool, own_code: bool
) -> FailureGroup:
    first = members[0]
    failure = _failure(first)
    advice = way_out(stage, kind, scoring=scoring, own_code=own_code)
    if kind == "rate_limited" and failure and not (failure.retryable or stage == "provision"):
        advice = _QUOTA_SPENT
    return FailureGroup(
        stage=stage,
        kind=kind,
        message=failure.message if failure else _NO_REASON,
        way_out=advice,
        cells=tuple(record.id for record in members),
        folder=Layout(Path()).attempts_of(first.fingerprint).as_posix(),
        scoring=scoring,
    )


def _runs_own_code(cell: Cell) -> bool:
    """Whether its benchmark runs the user's own files."""
    with suppress(PluginError):
        return bool(benchmark_class(cell.workload.benchmark).code(cell.workload))
    return False


def _failure(record: CellRecord) -> Failure | None:
    return record.outcome.reason if record.outcome else None
