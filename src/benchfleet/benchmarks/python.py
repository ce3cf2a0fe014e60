"""Your own callable or class as a benchmark, on the model that the slot has loaded."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import symtable
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Benchmark, Score, Session
from benchfleet.benchmarks.model_client import ModelClient
from benchfleet.benchmarks.output_files import rename_reserved_files
from benchfleet.benchmarks.parameters import optional_text, text, texts, with_defaults
from benchfleet.benchmarks.reported_scores import METRICS, bad_result, plain, read_file, read_report
from benchfleet.benchmarks.source_files import is_source, matching_files, source_digest
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Workload
from benchfleet.errors import CellFailure
from benchfleet.hints import hint

_DEFAULTS: dict[str, Any] = {
    "name": None,
    "call": None,
    "path": ".",
    "params": {},
    "metric": None,
    "files": (),
    "identity": None,
    "folder": ".",
}
_CALL = re.compile(
    r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
)
_STAR = re.compile(r"^\s*from\s.+\simport\s+\*", re.MULTILINE)
_SUBSETS = ("subset", "subsets", "subsets_to_run")


class Python(Benchmark):
    """Calls ``module:name`` once for a cell.

    A function is called as ``evaluate(adapter, **params)`` and returns its metrics. A class is
    made from `params`, and its ``run_benchmark(adapter, result_dir)`` called; what it writes to
    the folder is kept, and its ``metrics.json`` read. Either is handed `subset`, `seed`,
    `repeat`, `limit`, `generation`, `generation_kwargs` and `result_dir` where it names them.

    Parameters: `name` (how results call it), `call`, `path` (the folder of the module, from the
    campaign's), `params`, `metric` (the headline's name), and `files`: patterns of further source
    files, whose content is part of the identity beside the module's or its whole package's. The
    text `identity` stands for the content of all.
    """

    example: ClassVar[str] = "- python: {name: my-bench, call: 'my_eval:evaluate'}"
    takes_folder: ClassVar[bool] = True
    takes_identity: ClassVar[bool] = True
    reads_generation: ClassVar[bool] = True

    def __init__(self, params: Mapping[str, Any]) -> None:
        values = with_defaults(params, _DEFAULTS)
        self.name = text("name", values["name"])
        match = _CALL.fullmatch(values["call"]) if isinstance(values["call"], str) else None
        if match is None:
            raise ValueError(
                f"call must be module:name, such as my_eval:run, not {values['call']!r}"
            )
        self._call, self._module, self._attribute = match[0], match["module"], match["attribute"]
        self._declared_path = text("path", values["path"])
        if not isinstance(values["params"], Mapping):
            raise ValueError("params must be a mapping of the callable's arguments to values")
        self._params = dict(values["params"])
        self._metric = optional_text("metric", values["metric"])
        self._files = texts("files", values["files"])
        self._identity = optional_text("identity", values["identity"])
        self._folder = Path(values["folder"]).absolute()

    @classmethod
    def code(cls, workload: Workload) -> str:
        return "a callable of Python"

    def params(self) -> Mapping[str, Any]:
        return {
            "name": self.name,
            "call": self._call,
            "params": self._params,
            "metric": self._metric,
        }

    def outside(self) -> Mapping[str, Any]:
        """Where it lies, and what the digest is made of."""
        return {
            "folder": str(self._folder),
            "path": self._declared_path,
            "files": self._files,
            **({"identity": self._identity} if self._identity else {}),
        }

    def check_subset(self, subset: str) -> str | None:
        return None  # the callable alone knows which there are

    def data_digest(self, subset: str | None) -> str:
        """The digest of the module or its package and of `files`, or the declared identity.

        Raises ValueError where there is no such module, or nothing of that name in it.
        """
        self._check_name()
        # By their names under `path`: wherever it lies, the same code is the same benchmark.
        own, others = source_digest(self._path, self._own_files()), self._other_files()
        return self._identity or content_digest([own, source_digest(self._folder, others)])

    def files(self, subset: str | None) -> Sequence[Path]:
        """The files that the digest is made of, and the folder that the code runs in."""
        return [*self._own_files(), *self._other_files(), self._folder]

    def run(self, session: Session) -> Score:
        scratch = session.scratch.absolute()
        try:
            with _inside(self._folder), _importable(self._path):
                returned = self._answer(self._import_target(), session, str(scratch))
                file = scratch / METRICS
                value = read_file(file) if file.exists() else plain(returned)
            if value is None:
                raise bad_result(f"{self._call} returned nothing and wrote no {METRICS}")
            report = read_report(value, metric=self._metric)
        finally:
            rename_reserved_files(scratch)
        return report.record(session)

    def _answer(self, target: Any, session: Session, result_dir: str) -> Any:
        adapter = ModelClient(session)
        offered = {
            "seed": session.seed,
            "repeat": session.repeat,
            "limit": session.limit,
            "generation": dict(session.generation),
            "generation_kwargs": dict(session.generation),
            "result_dir": result_dir,
        }
        params = self._with_subset(target, session.subset)
        if not inspect.isclass(target):
            return target(adapter, **{**_named(target, offered), **params})
        instance = target(**{**_named(target, offered), **params})
        run = getattr(instance, "run_benchmark", None)
        if run is None:
            raise _user_error(f"{self._call} is a class without run_benchmark(adapter, result_dir)")
        del offered["result_dir"]
        return run(adapter, result_dir, **_named(run, offered))

    def _with_subset(self, target: Any, subset: str | None) -> dict[str, Any]:
        if subset is None:
            return self._params
        for name in _SUBSETS:
            if name in inspect.signature(target).parameters:
                return {**self._params, name: subset if name == "subset" else [subset]}
        raise _user_error(
            f"{self._call} takes no subset; give it a parameter {', '.join(_SUBSETS)}, "
            "or remove the subsets"
        )

    def _import_target(self) -> Callable[..., Any]:
        """Import the callable again."""
        module = importlib.import_module(self._module)
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).resolve().is_relative_to(self._path.resolve()):
            raise _user_error(
                f"the name {self._module!r} is taken by {file or 'a module of Python itself'}; "
                "give your module another"
            )
        target: Any = module
        for part in self._attribute.split("."):
            if not hasattr(target, part):
                raise _user_error(f"{self._module} has no {self._attribute!r}")
            target = getattr(target, part)
        return target  # type: ignore[no-any-return]

    @property
    def _path(self) -> Path:
        return self._folder / self._declared_path

    def _own_files(self) -> list[Path]:
        """The module, or the whole package that it is in."""
        top = self._path / self._module.partition(".")[0]
        own = [top.with_suffix(".py")] if not top.is_dir() else sorted(top.rglob("*.py"))
        return [file for file in own if is_source(file.relative_to(self._path))]

    def _other_files(self) -> list[Path]:
        return matching_files(self._folder, self._files)

    def _check_name(self) -> None:
        """Refuse a module that is not there or lacks the name, as far as its text tells."""
        folder = self._path.joinpath(*self._module.split("."))
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        if not file.is_file():
            raise ValueError(f"call: module {self._module} not found in {self._path}")
        source, first = file.read_text("utf-8-sig"), self._attribute.partition(".")[0]
        try:
            table = symtable.symtable(source, str(file), "exec")
        except SyntaxError as error:
            raise ValueError(f"call: {file.name}, line {error.lineno}: {error.msg}") from error
        known_names = [
            s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()
        ]
        if first in known_names or _STAR.search(source) or "__getattr__" in known_names:
            return
        raise ValueError(f"call: {self._module} has no {first!r}; {hint(first, known_names)}")


def _named(target: Any, offered: Mapping[str, Any]) -> dict[str, Any]:
    """What of the offered arguments the target names."""
    parameters = inspect.signature(target).parameters
    return {name: value for name, value in offered.items() if name in parameters}


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _importable(path: Path) -> Iterator[None]:
    """Modules in `path` can be imported, as their files are now; afterwards none of them stays.

    No bytecode is written: Python compares only size and whole seconds to detect changes.
    """
    folder = str(path.resolve())
    known_modules = set(sys.modules)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        with contextlib.suppress(ValueError):  # the user's code may have changed it
            sys.path.remove(folder)
        for name in set(sys.modules) - known_modules:
            file = getattr(sys.modules[name], "__file__", None)
            installed = name.split(".")[0] == "benchfleet" or "site-packages" in (file or "")
            if file and not installed and Path(file).is_relative_to(folder):
                del sys.modules[name]


def _user_error(message: str) -> CellFailure:
    return CellFailure(stage="benchmark", kind="user_error", message=message)
