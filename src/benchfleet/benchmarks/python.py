"""Your own callable or class as a benchmark, on the model that the slot has loaded."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Benchmark, Score, Session
from benchfleet.benchmarks.model_client import ModelClient
from benchfleet.benchmarks.output_files import rename_reserved_files
from benchfleet.benchmarks.parameters import optional_text, text, texts, with_defaults
from benchfleet.benchmarks.reported_scores import METRICS, bad_result, plain, read_file, read_report
from benchfleet.benchmarks.source_files import matching_files, source_digest
from benchfleet.benchmarks.user_code import UserCode, importable, optional_aggregate, user_error
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Workload
from benchfleet.hints import hint

_DEFAULTS: dict[str, Any] = {
    "name": None,
    "call": None,
    "path": ".",
    "params": {},
    "metric": None,
    "aggregate": None,
    "files": (),
    "identity": None,
    "folder": ".",
}
_SUBSETS = ("subset", "subsets", "subsets_to_run")
_OFFERED = ("seed", "repeat", "limit", "generation", "generation_kwargs", "result_dir")
_NO_SUBSET = f"takes no subset; give it a parameter {', '.join(_SUBSETS)}, or remove the subsets"


class Python(Benchmark):
    """Calls ``module:name`` once for a cell.

    A function is called as ``evaluate(adapter, **params)`` and returns its metrics. A class is
    made from `params`, and its ``run_benchmark(adapter, result_dir)`` called; what it writes to
    the folder is kept, and its ``metrics.json`` read. Function, constructor and `run_benchmark` are
    handed `subset`, `seed`, `repeat`, `limit`, `generation`, `generation_kwargs` and `result_dir`
    where they name them.

    Parameters: `name` (how results call it), `call`, `path` (the folder of the module, from the
    campaign's), `params`, `metric` (the headline's name), `aggregate` (``module:name`` of the
    function that makes the headline of the samples), and `files`: patterns of further source files,
    whose content is part of the identity beside the module's or its whole package's. The text
    `identity` stands for the content of all.
    """

    example: ClassVar[str] = "- python: {name: my-bench, call: 'my_eval:evaluate'}"
    takes_folder: ClassVar[bool] = True
    takes_identity: ClassVar[bool] = True
    reads_generation: ClassVar[bool] = True
    rescores: ClassVar[bool] = False

    def __init__(self, params: Mapping[str, Any]) -> None:
        values = with_defaults(params, _DEFAULTS)
        self.name = text("name", values["name"])
        self._declared_path = text("path", values["path"])
        self._folder = Path(values["folder"]).absolute()
        self._path = self._folder / self._declared_path
        self._call = UserCode.parse("call", values["call"], self._path)
        self._aggregate = optional_aggregate(values, self._path)
        if not isinstance(values["params"], Mapping):
            raise ValueError("params must be a mapping of the callable's arguments to values")
        self._params = dict(values["params"])
        self._metric = optional_text("metric", values["metric"])
        self._files = texts("files", values["files"])
        self._identity = optional_text("identity", values["identity"])

    @classmethod
    def code(cls, workload: Workload) -> str:
        return "a callable of Python"

    def params(self) -> Mapping[str, Any]:
        return {
            "name": self.name,
            "call": self._call.name,
            "params": self._params,
            "metric": self._metric,
            **({"aggregate": self._aggregate.name} if self._aggregate else {}),
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

        Raises ValueError where there is no such module, nothing of that name in it, or a function
        that does not take `params`.
        """
        for code in self._codes:
            code.check()
        self._check_arguments(subset)
        # By their names under `path`: wherever it lies, the same code is the same benchmark.
        own, others = source_digest(self._path, self._own_files()), self._other_files()
        return self._identity or content_digest([own, source_digest(self._folder, others)])

    def files(self, subset: str | None) -> Sequence[Path]:
        """The files that the digest is made of, and the folder that the code runs in."""
        return [*self._own_files(), *self._other_files(), self._folder]

    def run(self, session: Session) -> Score:
        scratch = session.scratch.absolute()
        try:
            with _inside(self._folder), importable(self._path):
                client = ModelClient(session)
                returned = self._answer(self._call.load(), session, client, str(scratch))
                file = scratch / METRICS
                value = read_file(file) if file.exists() else plain(returned)
                if value is None:
                    raise bad_result(f"{self._call.name} returned nothing and wrote no {METRICS}")
                aggregate = self._aggregate.load() if self._aggregate else None
                report = read_report(value, metric=self._metric, aggregate=aggregate)
        finally:
            rename_reserved_files(scratch)
        return client.with_answers(report).record(session)

    def _answer(self, target: Any, session: Session, adapter: ModelClient, result_dir: str) -> Any:
        generation = dict(session.generation), dict(session.generation)
        values = (session.seed, session.repeat, session.limit, *generation, result_dir)
        offered = dict(zip(_OFFERED, values, strict=True))
        subset = _subset_for(target, session.subset)
        arguments = {**_named(target, offered), **self._params, **subset}
        if not inspect.isclass(target):
            self._check_subset_taken(session.subset, subset)
            return target(adapter, **arguments)
        instance = target(**arguments)
        run = getattr(instance, "run_benchmark", None)
        if run is None:
            raise user_error(
                f"{self._call.name} is a class without run_benchmark(adapter, result_dir)"
            )
        of_run = _subset_for(run, session.subset)
        self._check_subset_taken(session.subset, {**subset, **of_run})
        del offered["result_dir"]
        return run(adapter, result_dir, **_named(run, offered), **of_run)

    def _check_arguments(self, subset: str | None) -> None:
        """Raises ValueError for arguments that the text of a function does not take, or lacks."""
        if (arguments := self._call.arguments()) is None:
            return
        name = self._call.name
        for one in self._params:
            if one not in arguments:
                raise ValueError(f"params: {name} takes no {one!r}; {hint(one, arguments)}")
        passed = {*self._params, *_OFFERED, *(_SUBSETS if subset is not None else ())}
        for one, required in arguments.items():
            if required and one not in passed:
                raise ValueError(f"params: {name} needs {one!r}; give it a value")
        if subset is not None and not arguments.keys() & {*_SUBSETS}:
            raise ValueError(f"{name} {_NO_SUBSET}")

    def _check_subset_taken(self, subset: str | None, passed: Mapping[str, Any]) -> None:
        if subset is not None and not passed:
            raise user_error(f"{self._call.name} {_NO_SUBSET}")

    @property
    def _codes(self) -> list[UserCode]:
        return [self._call, *([self._aggregate] if self._aggregate else [])]

    def _own_files(self) -> list[Path]:
        """The modules, or the whole packages that they are in."""
        return list(dict.fromkeys(file for code in self._codes for file in code.files()))

    def _other_files(self) -> list[Path]:
        return matching_files(self._folder, self._files)


def _named(target: Any, offered: Mapping[str, Any]) -> dict[str, Any]:
    """What of the offered arguments the target names."""
    parameters = inspect.signature(target).parameters
    return {name: value for name, value in offered.items() if name in parameters}


def _subset_for(target: Any, subset: str | None) -> dict[str, Any]:
    """The subset by the name that the target has for it; nothing where it has none."""
    parameters = inspect.signature(target).parameters
    name = next((one for one in _SUBSETS if one in parameters), None)
    if subset is None or name is None:
        return {}
    return {name: subset if name == "subset" else [subset]}


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
