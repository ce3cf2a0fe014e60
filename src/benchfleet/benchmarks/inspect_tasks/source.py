"""Where a task of Inspect is defined, and the digest of what it is made of.

Nothing of it is imported, so that a campaign is checked at once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchfleet.benchmarks.source_files import matching_files, source_digest
from benchfleet.domain.canonical import content_digest
from benchfleet.hints import hint

_IN_FILE = re.compile(r"(?P<file>[^@\0]+\.py)(@(?P<name>[^\W\d]\w*))?")
_IN_PACKAGE = re.compile(r"(?P<package>[\w.-]+)/(?P<name>[\w-]+)")


@dataclass(frozen=True, kw_only=True)
class TaskSource:
    """A task by its name as Inspect writes it: ``file.py@task`` or ``package/task``."""

    task: str
    folder: Path  # where the path of a file starts

    @property
    def file(self) -> Path | None:
        """The file of the task; None for a task of a package."""
        match = _IN_FILE.fullmatch(self.task)
        return self.folder / match["file"] if match else None

    @property
    def name(self) -> str:
        """The name of the task alone."""
        if match := _IN_FILE.fullmatch(self.task):
            return match["name"] or Path(match["file"]).stem
        return self.task.rpartition("/")[2]

    @property
    def name_in_folder(self) -> str:
        """As Inspect finds it from the folder of its file."""
        if self.file is None:
            return self.task
        requested = self.task.partition("@")[2]
        return f"{self.file.name}@{requested}" if requested else self.file.name

    def check_name(self) -> None:
        """Raises ValueError if it is neither a file nor a task of a package."""
        if not (_IN_FILE.fullmatch(self.task) or _IN_PACKAGE.fullmatch(self.task)):
            raise ValueError(
                f"task must be a file, such as tasks.py@addition, or a task of a package, such as "
                f"inspect_evals/gsm8k; not {self.task!r}"
            )

    def digest(self, patterns: Sequence[str]) -> str:
        """Of the task's file and further files, or of its package; and of Inspect's version.

        Raises ValueError, saying what to do, if the task is not here.
        """
        own = [version("inspect_ai"), source_digest(self.folder, self.files(patterns))]
        if self.file is None:
            own.append(self._package_version())
        else:
            self._check_file(self.file)
        return content_digest(own)

    def files(self, patterns: Sequence[str]) -> list[Path]:
        """The task's file, and what the patterns name in the campaign's folder."""
        own = [self.file] if self.file else []
        if own and not own[0].is_file():
            raise ValueError(f"task: {own[0]} is not a file; correct its path")
        return [*own, *matching_files(self.folder, patterns)]

    def _package_version(self) -> str:
        package = self.task.partition("/")[0]
        try:
            return version(package)
        except PackageNotFoundError:
            raise ValueError(
                f"task: the package {package!r} is not installed here; pip install {package}"
            ) from None

    def _check_file(self, file: Path) -> None:
        try:
            tree = ast.parse(file.read_text("utf-8-sig"), str(file))
        except SyntaxError as error:
            raise ValueError(f"task: {file.name}, line {error.lineno}: {error.msg}") from error
        tasks = [node.name for node in tree.body if _is_task(node)]  # type: ignore[attr-defined]
        requested = self.task.partition("@")[2]
        if not tasks:
            raise ValueError(f"task: {file.name} has no function with @task")
        if requested and requested not in tasks:
            raise ValueError(
                f"task: {file.name} has no task {requested!r}; {hint(requested, tasks)}"
            )
        if not requested and len(tasks) > 1:
            raise ValueError(f"task: {file.name} has {len(tasks)}; write {file.name}@{tasks[0]}")


def _is_task(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    calls = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    names = [
        one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in calls
    ]
    return "task" in names
