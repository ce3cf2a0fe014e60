"""Inspect as a benchmark: one task, run by Inspect itself on the slot's model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Benchmark, Score, Session
from benchfleet.benchmarks.parameters import optional_text, text, texts, with_defaults
from benchfleet.domain.cell import Workload

from .source import TaskSource

_DEFAULTS: dict[str, Any] = {
    "task": None,
    "name": None,
    "args": {},
    "metric": None,
    "files": (),
    "folder": ".",
}


class Inspect(Benchmark):
    """A task of Inspect, from a file or an installed package.

    Parameters: `task`, as ``tasks.py@addition`` or ``inspect_evals/gsm8k``; `name`, how results
    call it; `args`, its arguments; `metric`, which makes the headline; and `files`: patterns of
    further files whose content is part of the identity.

    A sample with an error makes the cell fail, whatever status Inspect writes. Inspect's own log
    is kept with the results.
    """

    requires: ClassVar[tuple[str, ...]] = ("inspect_ai",)
    extra: ClassVar[str] = "inspect"
    example: ClassVar[str] = "- inspect: {task: tasks.py@addition}"
    takes_folder: ClassVar[bool] = True
    why_whole: ClassVar[str] = "Inspect runs its task as a whole"

    def __init__(self, params: Mapping[str, Any]) -> None:
        values = with_defaults(params, _DEFAULTS)
        self._folder = Path(values["folder"]).absolute()
        self._source = TaskSource(task=text("task", values["task"]), folder=self._folder)
        self._source.check_name()
        self.name = optional_text("name", values["name"]) or f"inspect_{self._source.name}"
        if not isinstance(values["args"], Mapping):
            raise ValueError("args must be a mapping of the task's arguments to values")
        self._args = dict(values["args"])
        self._metric = optional_text("metric", values["metric"])
        self._files = texts("files", values["files"])

    @classmethod
    def code(cls, workload: Workload) -> str:
        """Its own file, or arguments, which may name code to run."""
        task, args = str(workload.params.get("task")), workload.params.get("args")
        return f"the task {task}" if ".py" in task or args else ""

    def params(self) -> Mapping[str, Any]:
        return {"task": self._source.task, "args": self._args, "metric": self._metric}

    def outside(self) -> Mapping[str, Any]:
        """Where its files lie, and what results call it."""
        return {"folder": str(self._folder), "files": self._files, "name": self.name}

    def data_digest(self, subset: str | None) -> str:
        """The digest of the task's file and `files`, or of its package's version."""
        return self._source.digest(self._files)

    def files(self, subset: str | None) -> Sequence[Path]:
        """The files that the digest is made of, and the folder that they lie in."""
        files = self._source.files(self._files)
        return [*files, self._folder] if files else []

    def run(self, session: Session) -> Score:
        from .run import evaluate

        return evaluate(self._source, self._args, session, metric=self._metric)
