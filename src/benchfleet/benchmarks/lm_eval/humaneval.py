"""HumanEval, whose answers are programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Session
from benchfleet.errors import CellFailure

from .named import OWN_PREFIX, Named
from .parts import Part
from .sandbox import sandbox_problem


class HumanEval(Named):
    """HumanEval: Python functions, run in a sandbox with the tests of each."""

    tasks: ClassVar[Mapping[str, str]] = {"": f"{OWN_PREFIX}humaneval"}

    @classmethod
    def unavailable(cls) -> str:
        """Whether this host can run programs in a sandbox."""
        return sandbox_problem()

    def missing_data(self, subset: str | None) -> str:
        """Without a sandbox here, its cells wait for another host."""
        problem = sandbox_problem()
        return f"humaneval {problem}" if problem else super().missing_data(subset)

    def build(self, part: Part, session: Session) -> Any:
        """The task, where its answers can be run."""
        if problem := sandbox_problem():
            message = f"humaneval {problem}"
            raise CellFailure(stage="benchmark", kind="missing_extra", message=message)
        return super().build(part, session)
