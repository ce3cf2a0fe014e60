"""lm-eval as a benchmark whose subsets are its tasks, each run by one call on the loaded model."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Benchmark, Score, Session
from benchfleet.benchmarks.parameters import whole_number, with_defaults
from benchfleet.domain.cell import Workload
from benchfleet.environment import offline

from .groups import tasks_of
from .harness import build_task, evaluate_served, evaluate_task, without_local_rank
from .score import scored
from .tasks import (
    TaskFile,
    built_in_digest,
    built_in_file,
    check_built_in,
    own_files,
    own_task,
    remote_data_of,
)

_DEFAULTS: dict[str, Any] = {
    "include_path": None,
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
    "metric": (str, "the name of a metric, such as acc"),
    "metadata": (dict, "a mapping, such as {max_seq_lengths: [4096]}"),
    "apply_chat_template": (bool, "true or false"),
    "fewshot_as_multiturn": (bool, "true or false"),
    "system_instruction": (str, "a text"),
    "add_bos_token": (bool, "true or false"),
}


class LmEval(Benchmark):
    """Any task of lm-eval; a subset is a task's name, or that of a group or tag.

    Parameters: `include_path`, a folder with your own tasks; `num_fewshot`; `metric` that
    makes the headline; and as lm-eval has them, `metadata`, `apply_chat_template`,
    `fewshot_as_multiturn`, `system_instruction`, `add_bos_token` and `max_length`.
    """

    requires: ClassVar[tuple[str, ...]] = ("lm_eval", "torch", "transformers")
    extra: ClassVar[str] = "lm-eval"
    takes_folder: ClassVar[bool] = True
    borrows: ClassVar[bool] = True
    borrows_served: ClassVar[bool] = True
    reports: ClassVar[frozenset[str] | None] = frozenset({"num_fewshot", "task_version"})
    subsets_key: ClassVar[str] = "tasks"

    def __init__(
        self, params: Mapping[str, Any], *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        values = {key: value for key, value in params.items() if key != "folder"}
        self._folder = str(params.get("folder", ""))
        self._params = with_defaults(values, _DEFAULTS)
        for name, (kind, expected) in _KINDS.items():
            value = self._params[name]
            if value != _DEFAULTS[name] and not isinstance(value, kind):
                raise ValueError(f"{name} must be {expected}, not {value!r}")
        for name, least in (("num_fewshot", 0), ("max_length", 1)):
            if self._params[name] is not None:
                whole_number(name, self._params[name], least=least)
        self._clock = clock

    @classmethod
    def code(cls, workload: Workload) -> str:
        path = workload.outside.get("include_path")  # their YAML may call functions
        return f"tasks of its own in {path}" if path else ""

    def params(self) -> Mapping[str, Any]:
        """All but where the tasks lie, whose content enters by `data_digest`."""
        return {name: value for name, value in self._params.items() if name != "include_path"}

    def outside(self) -> Mapping[str, Any]:
        """Where the tasks lie."""
        return {"folder": self._folder, "include_path": self._params["include_path"]}

    def expand_subset(self, subset: str) -> Sequence[str]:
        """The tasks of a group or a tag; the name itself for all others."""
        try:
            if self._own(subset) or built_in_file(subset):
                return [subset]
            return tasks_of(subset, self._own_files())
        except ValueError:
            return [subset]  # `check_subset` says what is wrong

    def check_subset(self, subset: str) -> str | None:
        """Whether there is such a task, and its data where they must not be fetched."""
        try:
            own = self._own(subset)
            if own is None and (message := self._unknown(subset)):
                return message
            if not offline(os.environ, datasets=True):
                return None
            remote = remote_data_of(subset, own)
            return remote.missing_message(os.environ) or None if remote else None
        except ValueError as error:
            return str(error)

    def missing_data(self, subset: str | None) -> str:
        """Whether its data set is neither in the cache nor in reach of the network."""
        try:
            remote = remote_data_of(subset or "", self._own(subset or ""))
        except ValueError:
            return ""
        return remote.unreachable_message(os.environ) if remote else ""

    def data_digest(self, subset: str | None) -> str:
        if subset is None:
            raise ValueError("names no task; write tasks: [gsm8k], one cell for each")
        own = self._own(subset)
        return own.digest() if own else built_in_digest()

    def files(self, subset: str | None) -> Sequence[Path]:
        """The files of a task of the user's own, and its data."""
        own = self._own(subset or "")
        return [*own.sources, *own.data] if own else []

    def run(self, session: Session) -> Score:
        """Ask what was not recorded yet, record and score."""
        name = session.subset or ""
        own = self._own(name)
        with without_local_rank():
            if session.adapter.serves:
                served = session.adapter.served()
                task = build_task(name, own, session, served.tokenizer, self._params)
                results = evaluate_served(task, session, served, self._params, clock=self._clock)
            else:
                with session.adapter.lend() as loan:
                    task = build_task(name, own, session, loan.model.name_or_path, self._params)
                    results = evaluate_task(task, session, loan, self._params, clock=self._clock)
        score = scored(results, task.task_name, metric=self._params["metric"])
        sparse = any(step.name != "dense" for step in session.config.attention)
        how = "sparse in every pass" if sparse else "dense"
        return replace(score, summary={**score.summary, "attention": how})

    def _unknown(self, subset: str) -> str | None:
        tasks_of(subset, own := self._own_files())  # raises for a group that cannot be used
        return check_built_in(subset, own)

    def _own(self, name: str) -> TaskFile | None:
        return own_task(folder, name) if (folder := self._own_folder()) else None

    def _own_files(self) -> Sequence[Path]:
        return own_files(folder) if (folder := self._own_folder()) else ()

    def _own_folder(self) -> Path | None:
        path = self._params["include_path"]
        if path is None:
            return None
        return Path(os.path.abspath(Path(self._folder, os.path.expanduser(path))))
