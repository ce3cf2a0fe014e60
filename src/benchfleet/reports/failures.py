"""Failures grouped by stage, kind and message, each with what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from benchfleet import registry
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.errors import PluginError
from benchfleet.results.layout import Layout

T = TypeVar("T")
OwnCode = Literal["", "script", "task"]  # a script or function, or a task of a harness

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
    "wrong_key": "Set the variable or the file that the model's 'key' names to a valid key; add a "
    "'key' if it has none.",
    "bad_request": "The server refuses the request, or its reply has another form: correct what "
    "the message names.",
    "try_again": "The script ended with exit code 75 (try again): its log says what it waits for.",
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
    "disk_full": "Free space where the message says, or else where the results lie; `--results` "
    "names another folder for them.",
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
_OWN_TASK = (
    "Correct the task's file: its metric where the answers could not be scored, else its data, "
    "prompts or functions. A changed task is a new cell, which `run` takes."
)
_TASKS = ("lm_eval", "inspect")  # benchmarks whose own code is that of tasks
_IN_OWN_CODE = frozenset({"error", "bad_result", "user_error"})  # that a change of it can fix
TRUST = (
    "These cells bring code of their own: --trust-campaign runs what the ledger names. If you do "
    "not trust its author, name the campaign's file in its place."
)
_QUOTA_SPENT = (
    "The quota of the account is spent, so no retry helps: pay for more or raise its limit at the "
    "provider, or name another 'key'; then `benchfleet retry`."
)
_NOT_SENT = (
    "Correct what the message names: `benchfleet hosts check` says whether the host's folder takes "
    "files; then `benchfleet retry`."
)
NO_REASON = "no reason was recorded"
_UNKNOWN = "unknown"  # the stage where no reason was recorded
FAILED_STATES = ("failed", "partial")
_PARTICULAR = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?|(?<![\w<])/[^\s:'\",)]+", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why cells failed; the messages of one cause differ in numbers and paths alone."""

    stage: str
    kind: str
    pattern: str  # the first line of a message without its numbers and paths
    scoring: bool  # all was answered, so that it is enough to score again
    own_code: OwnCode  # the user's own files that it is in
    quota_spent: bool

    @property
    def way_out(self) -> str:
        """What to do about it."""
        if self.quota_spent:
            return _QUOTA_SPENT
        if (self.stage, self.kind) == ("provision", "error"):
            return _NOT_SENT
        if self.kind == "error" and self.scoring:
            return _SCORING
        if self.kind == "bad_result" and not self.scoring:
            return _REPORTED
        if self.own_code:
            return _OWN_TASK if self.own_code == "task" else _OWN_CODE
        return WAYS_OUT.get(self.kind, WAYS_OUT["error"])

    @property
    def verbs(self) -> list[tuple[str, list[str] | None]]:
        """What to run after the fix, each with the kinds of failure to choose; None for any."""
        if self.scoring:
            return [("rescore", None)]
        kinds = None if self.stage == _UNKNOWN else [self.kind]
        return [("retry", kinds), ("run", None)]


@dataclass(frozen=True, kw_only=True)
class FailureGroup(Cause):
    """The cells that failed for one cause."""

    message: str  # of the first of them; not cleaned of what a model may have put there
    cells: tuple[str, ...]  # ids, in the campaign's order
    folder: str  # what the first one left, relative to the campaign's folder


def grouped_failures(
    records: Iterable[CellRecord], cells: Iterable[Cell] = ()
) -> tuple[FailureGroup, ...]:
    """The cells that ended without a whole result, the largest group first. `cells` say which of
    them run the user's own files."""
    failed = {record.fingerprint: record for record in records if record.state in FAILED_STATES}
    own = {c.fingerprint: own_code_of(c) for c in cells if c.fingerprint in failed}
    causes = (
        (_cause(record, own_code=own.get(name, "")), record) for name, record in failed.items()
    )
    return tuple(_group(cause, members) for cause, members in by_cause(causes))


def by_cause(failures: Iterable[tuple[Cause, T]]) -> list[tuple[Cause, list[T]]]:
    """What failed, by its cause, the largest group first."""
    groups: dict[Cause, list[T]] = {}
    for cause, member in failures:
        groups.setdefault(cause, []).append(member)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def cause_of(
    state: str, stage: str, kind: str, message: str, *, retryable: bool, own_code: OwnCode
) -> Cause:
    """The cause of a failure, whose stage and kind are ``""`` where no reason was recorded;
    `own_code` are the user's own files that the cell runs."""
    of_model = stage == "provision" or (stage, kind) == ("load", "user_error")
    is_own = kind in _IN_OWN_CODE and not of_model
    in_own = own_code if is_own else ""
    # A script that answers no samples has none to score, and fails whole.
    unscored = state == "partial" and stage == "collect" and kind in {"error", "bad_result"}
    return Cause(
        stage=stage or _UNKNOWN,
        kind=kind or "error",
        pattern=_PARTICULAR.sub("#", message.partition("\n")[0]),
        scoring=unscored and not in_own,
        own_code=in_own,
        quota_spent=kind == "rate_limited" and stage != "provision" and not retryable,
    )


def own_code_of(cell: Cell) -> OwnCode:
    """The user's own files that its benchmark runs; none where its plugin is not here."""
    benchmark = _plugin("benchmarks", cell.workload.benchmark)
    if benchmark is None or not benchmark.code(cell.workload):
        return ""
    return "task" if cell.workload.benchmark in _TASKS else "script"


def names_code(cell: Cell) -> bool:
    """Whether it brings code, which a worker without the campaign's file runs only if its user
    trusts the ledger."""
    if cell.model.python or own_code_of(cell):
        return True
    adapter = _plugin("models", cell.model.adapter)
    return adapter is not None and bool(adapter.code(cell.model))


@cache  # to look for an absent one takes long, and a campaign may have a great many cells
def _plugin(family: registry.Family, name: str) -> Any:
    with suppress(PluginError, ImportError):
        return registry.load(family, name, runs_here=False)
    return None


def _cause(record: CellRecord, *, own_code: OwnCode) -> Cause:
    failure = record.outcome.reason if record.outcome else None
    stage, kind, message = (failure.stage, failure.kind, failure.message) if failure else ("",) * 3
    retryable = failure is not None and failure.retryable
    return cause_of(record.state, stage, kind, message, retryable=retryable, own_code=own_code)


def _group(cause: Cause, members: Sequence[CellRecord]) -> FailureGroup:
    first = members[0]
    failure = first.outcome.reason if first.outcome else None
    return FailureGroup(
        **vars(cause),
        message=failure.message if failure else NO_REASON,
        cells=tuple(record.id for record in members),
        folder=Layout(Path()).attempts_of(first.fingerprint).as_posix(),
    )
